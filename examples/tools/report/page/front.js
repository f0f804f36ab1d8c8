// SPDX-License-Identifier: BSL-1.0
// The front of peak against recomputation, the chosen plan on it, and what each further percent buys.

/** The least peak of the front, or of the plan itself, within a part of a step's time. */
function leastWithin(model, part) {
  const { front, plan } = model;
  let least = plan.baselinePeak;
  front.overhead.forEach((overhead, i) => { if (overhead <= part) least = Math.min(least, front.peak[i]); });
  return plan.overhead <= part ? Math.min(least, plan.peak) : least;
}

/** The points of the front and the plan's own, without those that another one beats: overheads ascend, peaks descend. */
function wholeFront({ front, plan }) {
  const points = [...front.overhead.map((overhead, i) => ({ overhead, peak: front.peak[i] })), { overhead: plan.overhead, peak: plan.peak }];
  points.sort((a, b) => a.overhead - b.overhead || a.peak - b.peak);
  let least = Infinity;
  return points.filter(({ peak }) => peak < least && ((least = peak), true));
}

class FrontChart {
  constructor(host, model) {
    Object.assign(this, { host, model });
    const { plan, front } = model;
    this.right = Math.max(12, Math.ceil(160 * plan.overhead));
    this.tip = new Tooltip(host);
    host.setAttribute("role", "img");
    host.setAttribute("aria-label", `Peak against recomputation: ${plural(front.peak.length, "point")}, from ` +
      `${showBytes(plan.baselinePeak)} at no cost to ${showBytes(front.peak.at(-1) ?? plan.baselinePeak)}; the chosen plan has ` +
      `${showBytes(plan.peak)} at ${showPercent(plan.overhead)}. The table beside it says the same in numbers.`);
  }

  draw() {
    const { plan, front } = this.model, colour = styleColour("accent");
    this.plot?.destroy();
    this.points = wholeFront(this.model);
    const x = this.points.map((point) => 100 * point.overhead), y = this.points.map((point) => point.peak);
    const low = Math.min(front.bound, plan.bound, plan.peak, ...y), high = Math.max(plan.baselinePeak, plan.peak, ...y);
    const margin = 0.08 * (high - low || high || 1);
    this.plot = new uPlot({ ...chartSize(this.host, 300), legend: { show: false },
      series: [{}, { stroke: colour, width: 2, paths: uPlot.paths.stepped({ align: 1 }),
        points: { show: true, size: 5, fill: colour, stroke: colour } }],
      axes: [axis({ label: "recomputation, % of a step's time", labelSize: 18, size: 34 }), byteAxis()],
      scales: { x: { time: false, range: () => [0, this.right] }, y: { range: () => [Math.max(0, low - margin), high + margin] } },
      cursor: { drag: { x: false, y: false }, y: false }, hooks: { draw: [(u) => this.mark(u)], setCursor: [(u) => this.hover(u)] } },
    [x, y], this.host);
  }

  mark(u) {
    const { plan, front } = this.model;
    markLine(u, "y", plan.baselinePeak, "without Echo", styleColour("quiet"));
    markLine(u, "y", front.bound, "no plan is smaller, whatever it takes", styleColour("quiet"));
    if (plan.maxOverhead > 0) markLine(u, "x", 100 * plan.maxOverhead, "asked for", styleColour("quiet"), { down: 0.3 });
    markDot(u, 100 * plan.overhead, plan.peak, styleColour("bad"));
  }

  hover(u) {
    const { left, top, idx } = u.cursor;
    if (left < 0 || left === undefined || idx === null || idx === undefined) return this.tip.hide();
    const part = Math.max(0, u.posToVal(left, "x")) / 100, { plan } = this.model, least = leastWithin(this.model, part);
    this.tip.show([`Within ${showPercent(part)}: ${showBytes(least)}`, `${(plan.baselinePeak / least).toFixed(2)} times smaller than without Echo`,
      `Chosen: ${showBytes(plan.peak)} at ${showPercent(plan.overhead)}`], left + u.over.offsetLeft, top + u.over.offsetTop, false);
  }
}

/** A row for each percent: what it buys over the one before. */
function percentRows(model) {
  const { plan } = model, rows = [], most = Math.max(10, Math.ceil(100 * plan.overhead));
  const marks = [...new Set([0, 1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30].filter((p) => p <= most).concat(most))];
  let before = null, at = 0;
  for (const percent of marks) {
    const least = leastWithin(model, percent / 100);
    const chosen = rows.length > 0 && plan.overhead > at / 100 && plan.overhead <= percent / 100;
    rows.push({ percent, least, buys: before === null ? null : (before - least) / (percent - at), chosen: chosen || (percent === 0 && plan.overhead === 0) });
    before = least;
    at = percent;
  }
  return rows;
}
