// SPDX-License-Identifier: BSL-1.0
// Numbers and facts in words.

const SPACE = "\u00a0"; // number and unit stay in one line
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** 1606385664 as "1.50 GiB": three digits that count. */
function showBytes(bytes) {
  let unit = 0, value = Math.abs(bytes);
  for (; value >= 1024 && unit + 1 < UNITS.length; ++unit) value /= 1024;
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return `${bytes < 0 ? "−" : ""}${value.toFixed(digits)}${SPACE}${UNITS[unit]}`;
}

/** "without Echo": a title inside a sentence. */
function lowered(text) { return text === "" ? text : text[0].toLowerCase() + text.slice(1); }

/** A side inside a sentence: "without Echo", or the name of one of two plans. */
function sideText(model, s) { return model.before ? model.sides[s].title : lowered(model.sides[s].title); }

function showCount(count) { return Math.round(count).toLocaleString("en-US"); }

const TIME_UNITS = ["ns", "µs", "ms", "s"];

function showTime(ns) {
  const at = ns < 1e3 ? 0 : ns < 1e6 ? 1 : ns < 1e9 ? 2 : 3, value = ns / 1000 ** at, unit = TIME_UNITS[at];
  return `${value >= 100 || ns < 1e3 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2)}${SPACE}${unit}`;
}

function showPercent(part) { return `${(100 * part).toFixed(2)}${SPACE}%`; }

/** "conv4 (aten.convolution)"; the op is left out where the name says it. */
function nodeText(graph, n) {
  const name = graph.names[n], op = graph.ops[graph.op[n]];
  return name === op ? name : `${name} (${op})`;
}

function plural(count, one, many = `${one}s`) { return `${showCount(count)} ${count === 1 ? one : many}`; }

/** The nodes that read the outputs of a node, the first few by name. */
function readersText(graph, n, output) {
  const v = graph.firstOutput[n] + output, { first, readers } = graph.uses;
  const all = [...new Set(readers.subarray(first[v], first[v + 1]))];
  if (all.length === 0) return "nobody";
  const named = all.slice(0, 3).map((reader) => graph.names[reader]).join(", ");
  return all.length > 3 ? `${named} and ${showCount(all.length - 3)} more` : named;
}

/** Why a storage waits for the backward pass, of its reason. `atPeak`: it is live at the peak. */
function reasonText(side, why, atPeak) {
  const graph = side.graph, culprit = why.culprit >= 0 ? nodeText(graph, why.culprit) : "";
  const reader = why.reader >= 0 ? `Read by ${nodeText(graph, why.reader)}; ` : "";
  const rest = why.nodes > 1 ? ` and ${plural(why.nodes - 1, "more op")}` : "";
  const ways = {
    result: () => "a result of the step",
    asked: () => `${culprit} is to be kept, as was asked`,
    never: () => `it cannot be made again: ${culprit} must not run twice`,
    unknown: () => `left alone: nothing is known of the op of ${culprit}`,
    gone: () => `it cannot be made again: what it was made from is written over`,
    long_way: () => "running it again needs more than 256 ops",
    heavy: () => `running it again needs ${culprit}${rest}: ${showTime(why.ns)}`,
    light: () => atPeak ? `running ${plural(why.nodes, "op")} again would take ${showTime(why.ns)}; the plan spends its time elsewhere`
      : `it is not live at the peak, so that keeping it costs nothing there (again: ${showTime(why.ns)})`,
  };
  const text = reader + ways[why.kind]();
  return text[0].toUpperCase() + text.slice(1);
}

/** When a node runs again on a side where it does, and what that takes. */
function againText(side, n) {
  const again = side.again.get(n), ns = again.filter((t) => side.kind[t] === AGAIN).length * side.graph.ns[n];
  const inside = side.kind[again[0]] === FUSED ? ", inside its readers" : "";
  const steps = again.slice(0, 3).map(showCount).join(", ") + (again.length > 3 ? ", …" : "");
  return `Runs again at step ${steps}${inside}: ${showTime(ns)} more`;
}

/** Everything that is known of a storage, as lines of text; the first is its name. */
function storageLines(model, sideIndex, i) {
  const side = model.sides[sideIndex], { storages: st, graph } = side;
  const step = st.first[i], n = side.node[step], encoded = (st.flags[i] & 2) !== 0;
  const suffix = graph.outputs[n] > 1 ? `, output ${st.output[i]}` : "";
  const layer = graph.layers[graph.layer[n]];
  const lines = [graph.names[n] + suffix, `${showBytes(st.bytes[i])}, steps ${showCount(step)} to ${showCount(st.last[i])}`,
    `Made by ${graph.ops[graph.op[n]]}${layer ? ` in ${layer}` : ""}${side.kind[step] === AGAIN ? ", run again" : side.kind[step] === RELOAD ? ", back from the host's memory" : ""}`];
  if (encoded) lines[2] = `One bit per element, of what ${graph.ops[graph.op[n]]} made`;
  else lines.push(`Read by ${readersText(graph, n, st.output[i])}`);
  if (st.read[i] >= 0) lines.push(`Last read at step ${showCount(st.read[i])} by ${graph.names[side.node[st.read[i]]]}`);
  lines.push(...storyLines(model, sideIndex, i, n));
  return lines;
}

/** Why it is stashed or recomputed. */
function storyLines(model, sideIndex, i, n) {
  const side = model.sides[sideIndex], { storages: st } = side;
  if ((st.flags[i] & 2) !== 0) return ["Its gradient needs no more than the sign: the value itself does not wait"];
  if (side.kind[st.first[i]] === RELOAD) return ["It left for the host's memory until it is read again"];
  if (side.kind[st.first[i]] === AGAIN) return [againText(side, n)];
  const after = model.sides[1], onlyThere = sideIndex === 0 && side.graph === after.graph && after.again.has(n) && !side.again.has(n);
  if (onlyThere) return [`${againText(after, n)}: ${model.before ? `in ${after.title}` : "with Echo"} it does not wait`];
  const why = side.reasons.get(i), atPeak = st.first[i] <= side.peakStep && st.last[i] >= side.peakStep;
  return why ? [reasonText(side, why, atPeak)] : [];
}
