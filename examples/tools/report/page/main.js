// SPDX-License-Identifier: BSL-1.0
// Puts the page together.

/** Positions of steps on the other side: through the nodes that run there, or by their part of the step. */
function mapStep(from, to, step) {
  if (from.graph !== to.graph) return Math.round(step / Math.max(1, from.steps - 1) * (to.steps - 1));
  for (let t = Math.min(step, from.steps - 1); t >= 0; --t)
    if (from.kind[t] === RUN && to.stepOf[from.node[t]] >= 0) return to.stepOf[from.node[t]];
  return 0;
}

class Report {
  constructor(model) {
    this.model = model;
    this.stacks = new Map();
    this.mode = model.arenaOnly ? "op" : "structure"; // of which it has but one
    this.along = "steps";
    const $ = (id) => document.getElementById(id), zoomOf = (side) => (from, to) => this.zoom(side, from, to);
    this.charts = [0, 1].map((side) => new MemoryChart($(side === 0 ? "before" : "after"), model, side, zoomOf(side)));
    if (model.sides[1].storages.offset) this.charts.push(new ArenaChart($("arena"), model, zoomOf(1)));
    else $("arena-section").hidden = true;
    if (model.before) $("arena-title").textContent = `The arena of ${model.sides[1].title}`;
    if (model.front) this.front = new FrontChart($("front"), model);
    else $("front-section").hidden = true;
    model.sides.forEach((side, i) => { titleOf($(i === 0 ? "before-title" : "after-title"), side); });
    this.addChoice($("stack"), MODES, "mode");
    this.addChoice($("along"), ALONG, "along");
    $("along").hidden = model.sides.some((side) => side.begins.time.at(-1) === 0); // nothing is known of times
    if (model.arenaOnly) $("before").closest("figure").hidden = true; // it would be the same
    this.addZoom();
    this.addNotes($("notes"), $("notes-section"));
  }

  get stack() {
    if (!this.stacks.has(this.mode)) this.stacks.set(this.mode, stackOf(this.model, this.mode));
    return this.stacks.get(this.mode);
  }

  /** All charts and what depends on colours. */
  draw() {
    const top = 1.06 * Math.max(1, ...this.model.sides.map((side) => side.peak)), { stack } = this;
    for (const chart of this.charts) chart.draw(stack, this.along, top);
    this.front?.draw();
    this.fillLegend(document.getElementById("legend"));
    peakTable(document.getElementById("peak-table"), this.model, stack);
  }

  /** What needs no colours, and can wait until the charts are seen. */
  fillTables() {
    const goTo = (s, first, last) => {
      const margin = Math.max(20, Math.round(0.1 * (last - first)));
      this.zoom(s, Math.max(0, first - margin), Math.min(this.model.sides[s].steps - 1, last + margin));
      document.getElementById(s === 0 ? "before" : "after").scrollIntoView({ block: "center" });
    };
    const $ = (id) => document.getElementById(id), { model } = this;
    this.values = eachPlan($("values-table"), model, () => true, (host, s) => valuesTable(host, model, s, goTo)).at(-1);
    const again = eachPlan($("again-table"), model, (side) => side.again.size > 0, (host, s) => againTable(host, model, s));
    $("again-section").hidden = again.length === 0;
    if (model.front) percentTable($("steps-table"), model);
  }

  /** One range of steps for all charts. */
  zoom(side, from, to) {
    const { sides } = this.model, clamp = (step, s) => Math.max(0, Math.min(sides[s].steps - 1, step));
    const all = from <= sides[side].begin && to >= sides[side].steps - 1;
    const ranges = sides.map((other, s) => all ? [other.begin, other.steps - 1] : s === side ? [clamp(from, s), clamp(to, s)]
      : [mapStep(sides[side], other, clamp(from, side)), mapStep(sides[side], other, clamp(to, side))]);
    for (const chart of this.charts) chart.setRange(...ranges[chart.sideIndex]);
  }

  /** Radio buttons that set one of the members by which charts are drawn. */
  addChoice(host, choices, member) {
    for (const [value, text] of Object.entries(choices)) {
      const label = document.createElement("label"), input = document.createElement("input");
      Object.assign(input, { type: "radio", name: host.id, value, checked: value === this[member] });
      input.addEventListener("change", () => { this[member] = value; this.draw(); });
      label.append(input, text);
      host.append(label);
    }
  }

  addZoom() {
    const chart = this.charts[1], actions = { in: () => chart.zoomBy(0.5), out: () => chart.zoomBy(2), left: () => chart.zoomBy(1, -0.25),
      right: () => chart.zoomBy(1, 0.25), all: () => chart.zoomed(chart.side.begin, chart.side.steps - 1), peak: () => this.zoomToPeak() };
    for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", actions[button.dataset.zoom]);
  }

  /** The steps around the plan's peak. */
  zoomToPeak() {
    const { peakStep, steps } = this.model.sides[1], around = Math.max(15, Math.round(steps / 400));
    this.zoom(1, Math.max(0, peakStep - around), Math.min(steps - 1, peakStep + around));
  }

  fillLegend(host) {
    const { stack } = this;
    host.replaceChildren(...stack.groups.map((name, g) => {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("i"), { style: `background:${groupColour(stack, g)}` }), name);
      item.hidden = !stack.used[g];
      return item;
    }));
  }

  addNotes(host, section) {
    const { before, plan, sides } = this.model, after = notesOf(plan);
    const lines = before ? bothNotes([notesOf(before), after], sides.map((side) => side.title)) : after;
    host.append(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
    section.hidden = lines.length === 0;
  }
}

/** What the planner noted of a plan, and what it knows nothing of. */
function notesOf({ notes, unknownOps }) {
  return [...notes, ...unknownOps.map((op) => `Nothing is known of the op ${op}: it was left alone.`)];
}

/** The notes of two plans, each with the plan that it is of. */
function bothNotes([a, b], [nameOfA, nameOfB]) {
  const shared = a.filter((line) => b.includes(line)), rest = (lines) => lines.filter((line) => !shared.includes(line));
  return [...shared.map((line) => `Both: ${line}`), ...rest(a).map((line) => `${nameOfA}: ${line}`), ...rest(b).map((line) => `${nameOfB}: ${line}`)];
}

/** "With Echo  1.49 GiB at step 8,300 of 17,453". */
function titleOf(host, side) {
  const name = Object.assign(document.createElement("b"), { textContent: side.title });
  host.append(name, ` ${showBytes(side.peak)} at step ${showCount(side.peakStep)} of ${showCount(side.steps)}, where ` +
    `${side.steps > 0 ? nodeText(side.graph, side.node[side.peakStep]) : "nothing"} runs`);
}

async function start() {
  let report = null;
  startTheme(() => report?.draw());
  try {
    report = new Report(unpack(await readData()));
    report.draw();
    performance.mark("echo-charts");
    let resizing = 0;
    addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => report.draw(), 120); });
    requestAnimationFrame(() => setTimeout(() => {
      report.fillTables();
      performance.mark("echo-ready");
      window.echoReport = report;
    }));
  } catch (problem) {
    const box = document.getElementById("problem");
    box.hidden = false;
    box.textContent = `The report cannot be drawn (${problem.message}). It needs a browser of 2023 or later.`;
    console.error(problem);
  }
}

start();
