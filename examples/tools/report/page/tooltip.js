// SPDX-License-Identifier: BSL-1.0
// What is said of the place under the cursor: beside it for the eye, and as a status for a screen reader.

class Tooltip {
  constructor(host) {
    this.host = host;
    this.box = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
    this.heard = Object.assign(document.createElement("div"), { className: "heard" });
    this.heard.setAttribute("role", "status");
    host.append(this.box, this.heard);
  }

  hide() { this.box.hidden = true; }

  /** `lines`: text, or [colour, text]; "" is a rule. The first is the heading. Said aloud only if `aloud`. */
  show(lines, left, top, aloud) {
    this.box.replaceChildren(...lines.map((line, i) => tipLine(line, i)));
    this.box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = this.box, room = this.host.clientWidth;
    this.box.style.left = `${Math.max(0, left + 16 + width > room ? left - width - 16 : left + 16)}px`;
    this.box.style.top = `${Math.max(-20, Math.min(top - 12, this.host.clientHeight - height + 40))}px`;
    if (aloud) this.heard.textContent = lines.map((line) => (Array.isArray(line) ? line[1] : line)).filter(Boolean).join(". ");
  }
}

function tipLine(line, i) {
  if (line === "") return document.createElement("hr");
  const made = document.createElement("p"), [colour, text] = Array.isArray(line) ? line : [null, line];
  if (colour) made.append(Object.assign(document.createElement("i"), { style: `background:${colour}` }));
  const words = document.createElement(i === 0 ? "b" : "span");
  words.textContent = text;
  made.append(words);
  return made;
}
