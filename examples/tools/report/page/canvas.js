// SPDX-License-Identifier: BSL-1.0
// What all charts share: axes in people's units, the size of a chart, lines and words on it.

const BYTE_STEPS = Array.from({ length: 60 }, (_, i) => 2 ** i);
const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';

/** Marks of an axis in one unit, that of the largest: "0.5 GiB", "1 GiB". */
function axisBytes(marks) {
  const most = Math.max(1, ...marks.map(Math.abs)), unit = Math.min(UNITS.length - 1, Math.floor(Math.log2(most) / 10));
  return marks.map((bytes) => (bytes === 0 ? "0" : `${Number((bytes / 1024 ** unit).toFixed(3))} ${UNITS[unit]}`));
}

function axis(more) {
  return { stroke: styleColour("quiet"), font: FONT, labelFont: FONT, grid: { stroke: styleColour("grid"), width: 1 },
    ticks: { stroke: styleColour("line"), width: 1, size: 5 }, ...more };
}

function byteAxis(more) {
  return axis({ size: 78, incrs: BYTE_STEPS, values: (u, marks) => axisBytes(marks), ...more });
}

/** Marks of an axis in one unit, that of the largest: "0.5 ms", "1 ms". */
function axisTimes(marks) {
  const most = Math.max(1, ...marks), at = Math.min(TIME_UNITS.length - 1, Math.floor(Math.log10(most) / 3));
  return marks.map((ns) => (ns === 0 ? "0" : `${Number((ns / 1000 ** at).toFixed(6)).toLocaleString("en-US")} ${TIME_UNITS[at]}`));
}

/** From left to right: steps or time. */
function alongAxis(along) {
  const time = along === "time", incrs = Array.from({ length: 13 }, (_, i) => [1, 2, 5].map((x) => x * 10 ** i)).flat();
  return axis({ label: time ? "modelled time" : "step", labelSize: 18, size: 34, space: 80, incrs,
    values: (u, marks) => (time ? axisTimes(marks) : marks.map(showCount)) });
}

function chartSize(host, height) { return { width: Math.max(320, Math.floor(host.clientWidth)), height }; }

/** A line over the whole chart at a value of a scale, with words at its end. `part`: "line" or "words" alone; `down`: how far
 *  down the words of an upright line stand, from 0 to 1. */
function markLine(u, scale, value, words, colour, { part = "both", down = 1 } = {}) {
  const at = u.valToPos(value, scale, true), { left, top, width, height } = u.bbox, ctx = u.ctx, ratio = devicePixelRatio;
  const across = scale === "y";
  if (across ? at < top || at > top + height : at < left || at > left + width) return;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = ratio;
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(across ? left : at, across ? at : top);
  ctx.lineTo(across ? left + width : at, across ? at : top + height);
  if (part !== "words") ctx.stroke();
  ctx.restore();
  if (part === "line") return;
  const right = at + wordsWidth(u, words) < left + width;
  if (across) plateWords(u, words, left + width - 4 * ratio, at - 3 * ratio, colour, "right");
  else plateWords(u, words, at + (right ? 5 : -5) * ratio, top + 20 * ratio + down * (height - 26 * ratio), colour, right ? "left" : "right");
}

function wordsWidth({ ctx }, words) {
  ctx.font = `${12 * devicePixelRatio}px ${FONT.slice(5)}`;
  return ctx.measureText(words).width + 8 * devicePixelRatio;
}

/** Words on a plate, so that they can be read on any colour; `y` is their lower edge. */
function plateWords(u, words, x, y, colour, align) {
  const { ctx } = u, ratio = devicePixelRatio, room = wordsWidth(u, words);
  ctx.save();
  ctx.textBaseline = "bottom";
  ctx.textAlign = align;
  ctx.fillStyle = styleColour("card");
  ctx.globalAlpha = 0.85;
  ctx.fillRect(align === "right" ? x - room + 4 * ratio : x - 4 * ratio, y - 14 * ratio, room, 15 * ratio);
  ctx.globalAlpha = 1;
  ctx.fillStyle = colour;
  ctx.fillText(words, x, y);
  ctx.restore();
}

/** A dot with a rim that stands out from any colour, and words beside it. */
function markDot(u, x, y, colour, words = "") {
  const ctx = u.ctx, ratio = devicePixelRatio, left = u.valToPos(x, "x", true), top = u.valToPos(y, "y", true);
  if (left < u.bbox.left || left > u.bbox.left + u.bbox.width) return;
  ctx.save();
  ctx.beginPath();
  ctx.arc(left, top, 4.5 * ratio, 0, 2 * Math.PI);
  ctx.fillStyle = styleColour("card");
  ctx.strokeStyle = colour;
  ctx.lineWidth = 2.5 * ratio;
  ctx.fill();
  ctx.stroke();
  ctx.restore();
  if (!words) return;
  const onTheRight = left + 10 * ratio + wordsWidth(u, words) < u.bbox.left + u.bbox.width;
  plateWords(u, words, left + (onTheRight ? 12 : -12) * ratio, top + 7 * ratio, colour, onTheRight ? "left" : "right");
}
