// SPDX-License-Identifier: BSL-1.0
// Memory over the steps of one side, stacked.

class MemoryChart {
  /** `zoomed(from, to)` is called when a range of steps is chosen on the chart. */
  constructor(host, model, sideIndex, zoomed) {
    Object.assign(this, { host, model, sideIndex, zoomed, side: model.sides[sideIndex] });
    this.range = [this.side.begin, Math.max(this.side.begin + 1, this.side.steps - 1)]; // the first and the last step in sight
    this.tip = new Tooltip(host);
    this.step = this.side.peakStep;
    describeChart(host, `Memory over the steps, ${this.side.title}: the peak of ${showBytes(this.side.peak)} is at step ` +
      `${showCount(this.side.peakStep)} of ${showCount(this.side.steps)}`);
    chartKeys(host, this);
  }

  /** Anew, with the colours and groups of a stack. */
  draw(stack, top) {
    this.stack = stack;
    this.top = top;
    this.load = stack.sides[this.sideIndex];
    this.plot?.destroy();
    this.shown = stack.groups.map((_, g) => g).filter((g) => stack.used[g]).reverse();
    const series = this.shown.map((g) => ({ label: stack.groups[g], fill: groupColour(stack, g), stroke: groupColour(stack, g),
      width: 0, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }));
    const size = chartSize(this.host, 250);
    this.plot = new uPlot({ ...size, legend: { show: false }, series: [{}, ...series], axes: [stepAxis(), byteAxis()],
      scales: { x: { time: false, range: () => [this.range[0], this.range[1] + 1] }, y: { range: () => [0, this.top] } },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 },
        bind: { dblclick: () => () => { this.zoomed(this.side.begin, this.side.steps - 1); } } },
      hooks: { draw: [() => this.mark()], setCursor: [(u) => this.hover(u)], setSelect: [(u) => this.select(u)] } },
    this.dataOf(), this.host);
  }

  /** The stack of the steps in sight, the lowest group last: each is drawn over the one before. */
  dataOf() {
    const [from, to] = this.range, steps = visibleSteps(this.load.total, from, to, this.plot ? this.plot.bbox.width : 1200);
    const sum = new Float64Array(steps.length), stacked = new Map();
    for (const g of this.shown.slice().reverse()) {
      const load = this.load.loads[g];
      for (let i = 0; i < steps.length; ++i) sum[i] += load[steps[i]];
      stacked.set(g, Array.from(sum));
    }
    // The last step has a width as well.
    return [[...steps, to + 1], ...this.shown.map((g) => [...stacked.get(g), stacked.get(g).at(-1)])];
  }

  setRange(from, to) {
    this.range = [from, Math.max(from + 1, to)];
    const data = this.dataOf();
    this.plot.batch(() => {
      this.plot.setData(data, false);
      this.plot.setScale("x", { min: this.range[0], max: this.range[1] + 1 });
    });
  }

  select(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, "x"), to = u.posToVal(left + width, "x");
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomed(Math.floor(from), Math.ceil(to) - 1);
  }

  mark() {
    const { side, plot, model } = this, other = model.sides[0];
    if (side.boundary > 0 && side.boundary < side.steps) markLine(plot, "x", side.boundary, "backward pass", styleColour("ink"));
    if (this.sideIndex === 1) markLine(plot, "y", other.peak, `peak ${model.graphs.length === 1 ? lowered(other.title) : `of ${other.title}`}`, styleColour("quiet"));
    markDot(plot, side.peakStep + 0.5, side.peak, styleColour("ink"));
  }

  hover(u) {
    const { left, top } = u.cursor;
    if (left < 0 || left === undefined || u.cursor.left === null) return this.tip.hide();
    // Where every step is drawn it is the one that the cursor is in, else the one that stands for those around it.
    const every = this.range[1] - this.range[0] < u.data[0].length, at = every ? Math.floor(u.posToVal(left, "x")) : u.data[0][u.posToIdx(left)];
    const step = Math.min(this.side.steps - 1, Math.max(0, at));
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
    const what = ["", ", run again", ", packed into one bit per element", ", inside its readers"][side.kind[step]];
    const lines = [`Step ${showCount(step)}: ${showBytes(load.total[step])} live`, `Runs ${nodeText(side.graph, n)}${what}`];
    if (group >= 0) lines.push([groupColour(stack, group), `${stack.groups[group]}: ${showBytes(load.loads[group][step])}`]);
    const largest = largestAt(side, load, group, step, 3);
    if (largest.length > 0) lines.push("", ...storageLines(this.model, this.sideIndex, largest[0]));
    if (largest.length > 1) lines.push("", `Then ${largest.slice(1).map((i) => `${side.graph.names[side.node[side.storages.first[i]]]} ` +
      `(${showBytes(side.storages.bytes[i])})`).join(", ")}`);
    this.tip.show(lines, left + this.plot.over.offsetLeft, top + this.plot.over.offsetTop, aloud);
  }

  /** The cursor, by keyboard: as many steps as a pixel shows. */
  moveCursor(direction) {
    const pixel = Math.max(1, Math.round((this.range[1] - this.range[0]) / this.plot.over.clientWidth * 4));
    const step = Math.min(this.range[1], this.side.steps - 1, Math.max(this.range[0], this.step + direction * pixel));
    const left = this.plot.valToPos(step, "x"), top = 20;
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

/** Keys of a chart over steps. */
function chartKeys(host, chart) {
  const zoomBy = (factor, shift = 0) => {
    const [from, to] = chart.range, width = (to - from) * factor;
    const middle = (factor === 1 ? (from + to) / 2 : Math.min(to, Math.max(from, chart.step))) + shift * (to - from);
    const first = Math.max(0, Math.min(chart.side.steps - 1 - width, middle - width / 2));
    chart.zoomed(Math.round(first), Math.round(Math.min(chart.side.steps - 1, first + width)));
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
