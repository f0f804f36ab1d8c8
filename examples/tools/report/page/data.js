// SPDX-License-Identifier: BSL-1.0
// From the packed data of the page to arrays that the charts and tables read.
"use strict";

/** The JSON of the page. */
async function readData() {
  const packed = atob(document.getElementById("data").textContent.trim());
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; ++i) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Differences, each to the number before, as the numbers themselves. */
function summed(differences, type = Uint32Array) {
  const made = new type(differences.length);
  let now = 0;
  for (let i = 0; i < made.length; ++i) made[i] = now += differences[i];
  return made;
}

/** Counts as first positions: entry i begins at made[i] and ends at made[i + 1]. */
function positions(counts) {
  const made = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; ++i) made[i + 1] = made[i] + counts[i];
  return made;
}

/** Pairs of position and number as a whole column. */
function spread(pairs, count, type) {
  const made = new type(count);
  for (let i = 0; i < pairs.length; i += 2) made[pairs[i]] = pairs[i + 1];
  return made;
}

/** Who reads each value: nodes readers[first[v]] up to readers[first[v + 1]], in their order. */
function readersOf(valueCount, firstInput, sources) {
  const counts = new Uint32Array(valueCount);
  for (const v of sources) ++counts[v];
  const first = positions(counts), next = first.slice(), readers = new Uint32Array(sources.length);
  for (let n = 0; n + 1 < firstInput.length; ++n)
    for (let i = firstInput[n]; i < firstInput[n + 1]; ++i) readers[next[sources[i]]++] = n;
  return { first, readers };
}

function unpackGraph(g) {
  const count = g.names.length, sources = summed(g.sources), firstInput = positions(g.inputs);
  return { ...g, count, sources, firstInput, firstOutput: positions(g.outputs),
    uses: readersOf(g.bytes.length, firstInput, sources), workspace: spread(g.workspace, count, Float64Array) };
}

function unpackStorages(packed) {
  const { count } = packed, first = summed(packed.first), bytes = Float64Array.from(packed.bytes);
  const last = new Uint32Array(count), read = new Int32Array(count);
  for (let i = 0; i < count; ++i) {
    last[i] = first[i] + packed.length[i];
    read[i] = packed.read[i] < 0 ? -1 : first[i] + packed.read[i];
  }
  return { count, first, last, read, bytes, output: spread(packed.output, count, Uint32Array),
    flags: spread(packed.flags, count, Uint8Array), offset: packed.offset ? Float64Array.from(packed.offset) : null };
}

/** Reasons by storage; undefined for what does not wait. */
function unpackReasons(packed) {
  const made = new Map(), storage = summed(packed.storage);
  for (let i = 0; i < packed.count; ++i)
    made.set(storage[i], { kind: REASONS[packed.kind[i]], value: packed.value[i], reader: packed.reader[i],
      culprit: packed.culprit[i], nodes: packed.nodes[i], ns: packed.ns[i] });
  return made;
}

const REASONS = ["result", "asked", "never", "unknown", "gone", "heavy", "light", "long_way"];
const INPUT = 0; // a phase
const RUN = 0, AGAIN = 1, ENCODE = 2, OFFLOAD = 3, RELOAD = 4, FUSED = 5;

/** Whether a step of this kind runs a node; others move or pack what one made. */
function runsNode(kind) { return kind !== ENCODE && kind !== OFFLOAD && kind !== RELOAD; }

function unpackSide(side, graphs) {
  const node = summed(side.node), kind = spread(side.kind, node.length, Uint8Array), graph = graphs[side.graph];
  const stepOf = new Int32Array(graph.count).fill(-1), again = new Map();
  for (let t = 0; t < node.length; ++t) {
    if (kind[t] === RUN) stepOf[node[t]] = t;
    else if (runsNode(kind[t])) again.set(node[t], [...(again.get(node[t]) ?? []), t]);
  }
  const begin = Math.max(0, node.findIndex((n) => graph.phase[n] !== INPUT)); // before it nothing but inputs is there
  const made = { ...side, graph, begin, node, kind, stepOf, again,
    storages: unpackStorages(side.storages), reasons: unpackReasons(side.reasons) };
  return { ...made, begins: beginsOf(made) };
}

/** What all parts of the page read: two sides, and what is known of the plan. */
function unpack(data) {
  const graphs = data.graphs.map(unpackGraph);
  return { ...data, graphs, sides: data.sides.map((side) => unpackSide(side, graphs)) };
}
