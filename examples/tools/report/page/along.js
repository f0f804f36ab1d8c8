// SPDX-License-Identifier: BSL-1.0
// What charts have from left to right: steps, or the time that the plan counts for them.

const ALONG = { steps: "steps", time: "modelled time" };

/** Where each step of a side begins, and where the last one ends: in steps, and in nanoseconds. What is packed into bits, is
 *  moved or runs inside its readers is counted as nothing. */
function beginsOf(side) {
  const steps = Float64Array.from({ length: side.steps + 1 }, (_, t) => t), time = new Float64Array(side.steps + 1);
  for (let t = 0; t < side.steps; ++t)
    time[t + 1] = time[t] + (side.kind[t] === RUN || side.kind[t] === AGAIN ? side.graph.ns[side.node[t]] : 0);
  return { steps, time };
}

/** The last position of an ascending array whose number is at most `x`; 0 if there is none. */
function lastAtMost(ascending, x) {
  let low = 0, high = ascending.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= x) low = middle;
    else high = middle;
  }
  return low;
}

/** A range of steps on the axis: from where the first begins to where the last ends, never empty. */
function extentOf(begins, [from, to]) { return [begins[from], Math.max(begins[from] + 1, begins[Math.min(to + 1, begins.length - 1)])]; }

/** The steps that a range of the axis touches. */
function stepsWithin(begins, left, right) {
  const most = Math.max(0, begins.length - 2), first = Math.min(most, lastAtMost(begins, left));
  let last = Math.min(most, lastAtMost(begins, right));
  while (last > first && begins[last] >= right) --last;
  return [first, last];
}

/** What a chart of `width` pixels draws of a range of steps: where on the axis, and which step from there on. Of those that
 *  begin in one pixel it is the one with most live bytes, so that no peak is lost; the last of them goes on where it is longer. */
function visibleSteps(total, begins, range, width) {
  const [left, right] = extentOf(begins, range), pixel = (right - left) / width, xs = [], steps = [];
  for (let t = range[0], end; t < Math.min(total.length, range[1] + 1); t = end) {
    const slot = Math.min(width - 1, Math.floor((begins[t] - left) / pixel)), edge = slot === width - 1 ? Infinity : left + (slot + 1) * pixel;
    let best = t;
    for (end = t + 1; end <= range[1] && begins[end] < edge; ++end) if (total[end] > total[best]) best = end;
    xs.push(Math.min(begins[t], right - pixel));
    steps.push(best);
    if (best === end - 1 || begins[end] <= edge) continue;
    xs.push(edge);
    steps.push(end - 1);
  }
  return { xs, steps, end: right };
}

/** What is drawn, with the step `wanted` some pixels wide where it is in sight: a peak of one pixel would not be
 *  seen. */
function widened({ xs, steps, end }, wanted, pixel, wide = 4) {
  const at = steps.indexOf(wanted);
  if (at < 0 || (xs[at + 1] ?? end) - xs[at] >= wide * pixel) return { xs, steps, end };
  const left = Math.max(xs[0], Math.min(xs[at] - pixel, end - wide * pixel)), right = left + wide * pixel;
  const before = xs.findLastIndex((x) => x < left) + 1, after = xs.findLastIndex((x) => x <= right);
  const rest = right < end ? [[right, ...xs.slice(after + 1)], steps.slice(after)] : [[], []];
  return { xs: [...xs.slice(0, before), left, ...rest[0]], steps: [...steps.slice(0, before), wanted, ...rest[1]], end };
}

/** "Step 8,300", and when it begins where charts are drawn over time. */
function stepText(side, along, t) {
  return `Step ${showCount(t)}${along === "time" ? ` at ${showTime(side.begins.time[t])}` : ""}`;
}
