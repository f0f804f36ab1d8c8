// SPDX-License-Identifier: BSL-1.0
// Memory over the steps of one side, stacked.

class MemoryChart {
  /** `zoomed(from, to)` is called when a range of steps is chosen on the chart. */
  constructor(host, model, sideIndex, zoomed) {
    Object.assign(this, { host, model, sideIndex, zoomed, side: model.sides[sideIndex] });
    this.range = [this.side.begin, Math.max(this.side.begin + 1, this.side.steps - 1)]; // the first and the last step in sight
    this.tip = new Tooltip(host);
    this.step = this.side.peakStep;
    chartKeys(host, this);
  }

  /** Anew, with the colours and groups of a stack, along steps or time. */
  draw(stack, along, top) {
    Object.assign(this, { stack, along, top, begins: this.side.begins[along] });
    describeChart(this.host, `Memory over ${ALONG[along]}, ${this.side.title}: the peak of ${showBytes(this.side.peak)} is at step ` +
      `${showCount(this.side.peakStep)} of ${showCount(this.side.steps)}`);
    this.load = stack.sides[this.sideIndex];
    this.plot?.destroy();
    this.shown = stack.groups.map((_, g) => g).filter((g) => stack.used[g]).reverse();
    const series = this.shown.map((g) => ({ label: stack.groups[g], fill: groupColour(stack, g), stroke: groupColour(stack, g),
      width: 0, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }));
    const size = chartSize(this.host, 250);
    this.plot = new uPlot({ ...size, legend: { show: false }, series: [{}, ...series], axes: [alongAxis(along), byteAxis()],
      scales: { x: { time: false, range: () => extentOf(this.begins, this.range) }, y: { range: () => [0, this.top] } },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: { dblclick: () => () => { this.zoomed(this.side.begin, this.side.steps - 1); } } },
      hooks: { drawAxes: [() => this.markBoundary("line")], draw: [() => this.mark()], setCursor: [(u) => this.hover(u)], setSelect: [(u) => this.select(u)] } },
    this.dataOf(), this.host);
  }

  /** The stack of the steps in sight, the lowest group last: each is drawn over the one before. */
  dataOf() {
    const width = this.plot ? this.plot.bbox.width : 1200, [left, right] = extentOf(this.begins, this.range);
    const { xs, steps, end } = widened(visibleSteps(this.load.total, this.begins, this.range, width), this.side.peakStep, (right - left) / width);
    this.drawn = { xs, steps };
    const sum = new Float64Array(steps.length), stacked = new Map();
    for (const g of this.shown.slice().reverse()) {
      const load = this.load.loads[g];
      for (let i = 0; i < steps.length; ++i) sum[i] += load[steps[i]];
      stacked.set(g, Array.from(sum));
    }
    // The last step has a width as well.
    return [[...xs, end], ...this.shown.map((g) => [...stacked.get(g), stacked.get(g).at(-1)])];
  }

  setRange(from, to) {
    this.range = [from, Math.max(from + 1, to)];
    const data = this.dataOf();
    this.plot.batch(() => {
      this.plot.setData(data, false);
      const [min, max] = extentOf(this.begins, this.range);
      this.plot.setScale("x", { min, max });
    });
  }

  select(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    const chosen = stepsWithin(this.begins, u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomed(...chosen);
  }

  /** Where the backward pass begins. `part`: the line lies under the curve, which is highest there, and the words over it. */
  markBoundary(part) {
    const { side, plot, begins } = this;
    if (side.boundary > 0 && side.boundary < side.steps) markLine(plot, "x", begins[side.boundary], "backward pass", styleColour("ink"), { part });
  }

  mark() {
    const { side, plot, model, begins } = this, other = model.sides[0];
    this.markBoundary("words");
    if (this.sideIndex === 1 && !model.arenaOnly)
      markLine(plot, "y", other.peak, `peak ${model.before ? "of " : ""}${sideText(model, 0)}`, styleColour("quiet"));
    if (side.steps > 0)
      markDot(plot, (begins[side.peakStep] + begins[side.peakStep + 1]) / 2, side.peak, styleColour("ink"), `peak ${showBytes(side.peak)}`);
  }

  hover(u) {
    const { left, top } = u.cursor;
    if (left < 0 || left === undefined || u.cursor.left === null) return this.tip.hide();
    const { xs, steps } = this.drawn, step = steps[lastAtMost(xs, u.posToVal(left, "x"))] ?? 0; // the one that is drawn there
    this.say(step, this.groupAt(step, u.posToVal(top, "y")), left, top, false);
  }

  /** The group that is drawn at some height over a step, or -1. */
  groupAt(step, bytes) {
    let sum = 0;
    for (const g of this.shown.slice().reverse()) if ((sum += this.load.loads[g][step]) >= bytes) return g;
    return -1;
  }

  /** What is said of a step, and of a group there. */
  say(step, group, left, top, aloud) {
    this.step = step;
    if (this.side.steps === 0) return;
    const { side, load, stack } = this, n = side.node[step];
    const what = ["", ", run again", ", packed into one bit per element", "", "", ", inside its readers"][side.kind[step]];
    const does = { [OFFLOAD]: "Has left for the host's memory:", [RELOAD]: "Comes back from the host's memory:" }[side.kind[step]] ?? "Runs";
    const lines = [`${stepText(side, this.along, step)}: ${showBytes(load.total[step])} live`, `${does} ${nodeText(side.graph, n)}${what}`];
    if (group >= 0) lines.push([groupColour(stack, group), `${stack.groups[group]}: ${showBytes(load.loads[group][step])}`]);
    const largest = largestAt(side, load, group, step, 3);
    if (largest.length > 0) lines.push("", ...storageLines(this.model, this.sideIndex, largest[0]));
    if (largest.length > 1) lines.push("", `Then ${largest.slice(1).map((i) => `${side.graph.names[side.node[side.storages.first[i]]]} ` +
      `(${showBytes(side.storages.bytes[i])})`).join(", ")}`);
    this.tip.show(lines, left + this.plot.over.offsetLeft, top + this.plot.over.offsetTop, aloud);
  }

  /** The cursor, by keyboard. */
  moveCursor(direction) {
    const step = nextStep(this, direction), left = this.plot.valToPos(this.begins[step], "x"), top = 20;
    this.plot.setCursor({ left, top }, false);
    this.say(step, -1, left, top, true);
  }
}

/** A name for a chart, which can be reached by keyboard. */
function describeChart(host, text) {
  host.tabIndex = 0;
  host.setAttribute("role", "application");
  host.setAttribute("aria-roledescription", "chart");
  host.setAttribute("aria-label", text);
  host.setAttribute("aria-describedby", "chart-keys");
}

/** The step some pixels to the right of the cursor's, or to the left, and another one in any case where there is one in sight. */
function nextStep({ begins, range, side, step, plot }, direction) {
  const [left, right] = extentOf(begins, range), pixels = 4 * (right - left) / plot.over.clientWidth;
  const there = lastAtMost(begins, begins[step] + direction * pixels), last = Math.min(range[1], side.steps - 1);
  return Math.max(0, Math.min(last, Math.max(range[0], direction > 0 ? Math.max(step + 1, there) : Math.min(step - 1, there))));
}

/** Keys of a chart over steps or time. */
function chartKeys(host, chart) {
  const zoomBy = (factor, shift = 0) => {
    const { begins, range, step } = chart, [left, right] = extentOf(begins, range), wide = (right - left) * factor, end = begins.at(-1);
    const at = Math.min(range[1], Math.max(range[0], step));
    const middle = factor === 1 ? (left + right) / 2 : (begins[at] + (begins[at + 1] ?? end)) / 2;
    const begin = Math.max(0, Math.min(end - wide, middle + shift * (right - left) - wide / 2));
    let [first, last] = stepsWithin(begins, begin, begin + wide);
    if (factor < 1) { // long steps at the edges are left out, or they would be in sight for ever
      while (first < at && begins[first] < begin) ++first;
      while (last > at && begins[last + 1] > begin + wide) --last;
    }
    chart.zoomed(first, last);
  };
  chart.zoomBy = zoomBy;
  const keys = { "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), "0": () => chart.zoomed(chart.side.begin, chart.side.steps - 1) };
  host.addEventListener("keydown", (event) => {
    const sign = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (sign) event.shiftKey ? zoomBy(1, sign / 4) : chart.moveCursor(sign);
    else if (keys[event.key] && !event.ctrlKey && !event.metaKey) keys[event.key]();
    else if (event.key === "Escape") return chart.tip.hide();
    else return;
    event.preventDefault();
  });
  host.addEventListener("blur", () => chart.tip.hide());
}
