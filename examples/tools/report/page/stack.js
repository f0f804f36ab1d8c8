// SPDX-License-Identifier: BSL-1.0
// What is live at each step, in groups: by data structure, layer or op.

const MODES = { structure: "data structure", layer: "layer", op: "op" };
const STRUCTURES = ["Feature maps", "Made again", "One bit per element", "Gradients", "Updates", "Workspace"];
const MOST_GROUPS = 8;
const FORWARD = 1, BACKWARD = 2, UPDATE = 3;

/** "encoder.3.attention" to a depth of 2: "encoder.3". */
function shortened(layer, depth) { return layer.split(/[./]/, depth).join("."); }

/** The name of the group of what step `t` makes. `depth`: how many parts of a layer's name tell it from others. */
function groupName(side, mode, t, depth) {
  const { graph } = side, n = side.node[t];
  if (mode === "layer") return shortened(graph.layers[graph.layer[n]], depth) || "(no layer)";
  if (mode === "op") return graph.ops[graph.op[n]];
  if (side.kind[t] === ENCODE) return STRUCTURES[2];
  if (graph.phase[n] === BACKWARD) return STRUCTURES[3];
  if (graph.phase[n] === UPDATE) return STRUCTURES[4];
  return STRUCTURES[side.kind[t] === AGAIN ? 1 : 0];
}

/** Bytes by group at the peak of a side. */
function bytesAtPeak(side, mode, depth) {
  const bytes = new Map(), { storages: st, peakStep } = side;
  if (side.steps === 0) return bytes;
  const add = (name, more) => { if (more > 0) bytes.set(name, (bytes.get(name) ?? 0) + more); };
  for (let i = 0; i < st.count; ++i)
    if (st.first[i] <= peakStep && st.last[i] >= peakStep) add(groupName(side, mode, st.first[i], depth), st.bytes[i]);
  if (runsNode(side.kind[peakStep]))
    add(mode === "structure" ? STRUCTURES[5] : groupName(side, mode, peakStep, depth), side.graph.workspace[side.node[peakStep]]);
  return bytes;
}

/** Groups by their bytes at both peaks, and the part of all bytes that the first few have. */
function rankedGroups(model, mode, depth) {
  const sums = new Map();
  for (const side of model.sides)
    for (const [name, bytes] of bytesAtPeak(side, mode, depth)) sums.set(name, (sums.get(name) ?? 0) + bytes);
  const ranked = [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  const sum = (rows) => rows.reduce((all, [, bytes]) => all + bytes, 0);
  return { names: ranked.map(([name]) => name), covered: sum(ranked.slice(0, MOST_GROUPS)) / Math.max(1, sum(ranked)) };
}

const COVERED = 0.6;

/** The groups that get a colour: the largest at the peaks, and one for all others. Names of layers are cut to a depth at which
 *  those with a colour hold most of the bytes. */
function chooseGroups(model, mode) {
  if (mode === "structure") return { groups: STRUCTURES.slice(), depth: 0 };
  const parts = model.graphs.flatMap((graph) => graph.layers.map((layer) => layer.split(/[./]/).length));
  let depth = mode === "layer" ? Math.max(1, ...parts) : 1, found = rankedGroups(model, mode, depth);
  while (depth > 1 && found.covered < COVERED) found = rankedGroups(model, mode, --depth);
  return { groups: [...found.names.slice(0, MOST_GROUPS), "Others"], depth };
}

/** By storage: the position of its group. */
function groupOfStorages(side, mode, groups, depth) {
  const at = new Map(groups.map((name, i) => [name, i])), others = groups.length - 1;
  const made = new Uint8Array(side.storages.count);
  for (let i = 0; i < made.length; ++i) made[i] = at.get(groupName(side, mode, side.storages.first[i], depth)) ?? others;
  return made;
}

/** Live bytes by group and step, and of all groups. */
function loadOf(side, mode, groups, depth) {
  const steps = side.steps, st = side.storages, of = groupOfStorages(side, mode, groups, depth);
  const loads = groups.map(() => new Float64Array(steps + 1)), total = new Float64Array(steps);
  for (let i = 0; i < st.count; ++i) {
    loads[of[i]][st.first[i]] += st.bytes[i];
    loads[of[i]][st.last[i] + 1] -= st.bytes[i];
  }
  for (const load of loads) for (let t = 1; t < steps; ++t) load[t] += load[t - 1];
  addWorkspace(side, mode, groups, depth, loads);
  for (const load of loads) for (let t = 0; t < steps; ++t) total[t] += load[t];
  return { of, loads, total };
}

function addWorkspace(side, mode, groups, depth, loads) {
  const at = new Map(groups.map((name, i) => [name, i])), { workspace } = side.graph;
  for (let t = 0; t < side.steps; ++t) {
    const bytes = runsNode(side.kind[t]) ? workspace[side.node[t]] : 0;
    if (bytes > 0) loads[mode === "structure" ? 5 : at.get(groupName(side, mode, t, depth)) ?? groups.length - 1][t] += bytes;
  }
}

/** The stacks of both sides in one mode. Groups that are nowhere live are left out. */
function stackOf(model, mode) {
  const { groups, depth } = chooseGroups(model, mode), sides = model.sides.map((side) => loadOf(side, mode, groups, depth));
  const used = groups.map((_, g) => sides.some((s) => s.loads[g].some((bytes) => bytes > 0)));
  return { mode, depth, groups, used, sides };
}

/** The largest live storages of a group (or of all, with -1) at a step, at most `most` of them. */
function largestAt(side, load, group, t, most) {
  const { storages: st } = side, found = [];
  for (let i = 0; i < st.count; ++i) {
    if (st.first[i] > t) break;
    if (st.last[i] < t || (group >= 0 && load.of[i] !== group)) continue;
    if (found.length === most && st.bytes[i] <= st.bytes[found[most - 1]]) continue;
    found.push(i);
    found.sort((a, b) => st.bytes[b] - st.bytes[a] || a - b);
    found.length = Math.min(found.length, most);
  }
  return found;
}
