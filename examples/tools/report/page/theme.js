// SPDX-License-Identifier: BSL-1.0
// Light and dark: the system's choice, and a switch. The colours of groups are told apart by people who see few of them.

const COLOURS = {
  light: ["#3274a8", "#e8a33d", "#2a9d78", "#c978a8", "#7cc4ec", "#cf5f1f", "#7d6bb5", "#b5a51c"],
  dark: ["#4f97d1", "#e9ad50", "#3bb58c", "#d48bb6", "#8fd0f2", "#e27a3f", "#9a89d0", "#cbbb3a"],
};
const OTHERS = { light: "#a5acb5", dark: "#6f7883" };

function isDark() { return document.documentElement.dataset.theme === "dark"; }

/** The colour of a group of a stack. */
function groupColour(stack, group) {
  const theme = isDark() ? "dark" : "light";
  if (stack.mode !== "structure" && group === stack.groups.length - 1) return OTHERS[theme];
  return COLOURS[theme][group % COLOURS[theme].length];
}

/** A colour of the style sheet. */
function styleColour(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); }

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").setAttribute("aria-pressed", String(dark));
}

/** Follows the system until the switch is used. `changed` is called behind every change. */
function startTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  setTheme(system.matches);
  system.addEventListener("change", () => { if (!chosen) { setTheme(system.matches); changed(); } });
  document.getElementById("theme").addEventListener("click", () => {
    chosen = true;
    setTheme(!isDark());
    changed();
  });
}
