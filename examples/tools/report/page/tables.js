// SPDX-License-Identifier: BSL-1.0
// The tables of the page.

/** Bytes as two bars, one over the other. */
function bars(before, after, most, colour) {
  const made = document.createElement("div");
  for (const [bytes, strength] of [[before, 0.4], [after, 1]]) {
    const bar = document.createElement("span");
    bar.style.cssText = `width:${(100 * bytes) / most}%;background:${colour};opacity:${strength}`;
    made.append(bar);
  }
  made.setAttribute("aria-hidden", "true");
  return made;
}

/** "−626 MiB", in the colour of better or worse. */
function changeCell(before, after) {
  const made = document.createElement("span"), change = after - before;
  made.textContent = change === 0 ? "0" : `${change > 0 ? "+" : ""}${showBytes(change)}`;
  made.className = change < 0 ? "good" : change > 0 ? "bad" : "";
  return made;
}

function peakTable(host, model, stack) {
  const [was, is] = model.sides.map((side) => bytesAtPeak(side, stack.mode, stack.depth)), at = new Map(stack.groups.map((g, i) => [g, i]));
  const rows = [...new Set([...was.keys(), ...is.keys()])].map((name) => ({ name, before: was.get(name) ?? 0, after: is.get(name) ?? 0 }));
  const most = Math.max(1, ...rows.map((row) => Math.max(row.before, row.after)));
  const titles = model.sides.map((side) => side.title);
  const bar = (show, title) => ({ title, className: "bar", show });
  const name = { title: MODES[stack.mode][0].toUpperCase() + MODES[stack.mode].slice(1), key: (r) => r.name, show: (r) => r.name, className: "name" };
  const colourOf = (r) => groupColour(stack, at.get(r.name) ?? stack.groups.length - 1);
  if (model.arenaOnly)
    return new SortedTable(host, { caption: `Bytes live at the peak by ${MODES[stack.mode]}`, rows, first: 1, page: 12, columns: [name,
      { title: "Bytes", key: (r) => r.after, show: (r) => showBytes(r.after), className: "number" }, bar((r) => bars(0, r.after, most, colourOf(r)), "")] });
  return new SortedTable(host, { caption: `Bytes live at the peak by ${MODES[stack.mode]}`, rows, first: 2, page: 12, columns: [name,
    { title: titles[0], key: (r) => r.before, show: (r) => showBytes(r.before), className: "number" },
    { title: titles[1], key: (r) => r.after, show: (r) => showBytes(r.after), className: "number" },
    { title: "Change", key: (r) => r.after - r.before, show: (r) => changeCell(r.before, r.after), className: "number" },
    bar((r) => bars(r.before, r.after, most, colourOf(r)), `Pale: ${sideText(model, 0)}; full: ${sideText(model, 1)}`)] });
}

/** One table of the plan; of two plans one each, under its name. `has`: whether there is something to say of a side. */
function eachPlan(host, model, has, make) {
  const sides = (model.before ? [0, 1] : [1]).filter((s) => has(model.sides[s]));
  return sides.map((s) => {
    const place = document.createElement("div");
    if (model.before) host.append(Object.assign(document.createElement("h3"), { textContent: model.sides[s].title }));
    host.append(place);
    return make(place, s);
  });
}

const LARGEST = 2000, MOST_AT_PEAK = 20000;

/** All that is live at the peak, and the largest of the others, as rows. */
function valueRows(side) {
  const { storages: st, graph, peakStep } = side, isAtPeak = (i) => st.first[i] <= peakStep && st.last[i] >= peakStep;
  const order = Array.from({ length: st.count }, (_, i) => i).sort((a, b) => st.bytes[b] - st.bytes[a] || a - b);
  const chosen = [...order.filter(isAtPeak).slice(0, MOST_AT_PEAK), ...order.slice(0, LARGEST).filter((i) => !isAtPeak(i))];
  return chosen.map((i) => {
    const why = side.reasons.get(i), maker = side.node[st.first[i]], n = why ? why.value : maker, atPeak = isAtPeak(i);
    return { i, name: graph.names[n], op: graph.ops[graph.op[n]], layer: graph.layers[graph.layer[n]], bytes: st.bytes[i],
      first: st.first[i], last: st.last[i], atPeak, waits: Boolean(why), text: whyText(side, i, why, atPeak), ns: why ? why.ns : 0 };
  });
}

function whyText(side, i, why, atPeak) {
  const { storages: st, graph } = side;
  if (why) return reasonText(side, why, atPeak);
  if (st.flags[i] & 2) return "One bit per element for the backward pass";
  const again = side.kind[st.first[i]] === AGAIN ? "Made again; " : "";
  const text = st.read[i] >= 0 ? `${again}needed until ${graph.names[side.node[st.read[i]]]} has run` : `${again}read by nobody`;
  return text[0].toUpperCase() + text.slice(1);
}

/** A name that shows its storage in the charts. */
function link(text, label, action) {
  const made = Object.assign(document.createElement("button"), { type: "button", className: "link" });
  made.append(...breakable(text));
  made.setAttribute("aria-label", `${text}: ${label}`);
  made.addEventListener("click", action);
  return made;
}

function valuesTable(host, model, s, goTo) {
  const of = model.before ? model.sides[s].title : "the plan";
  const table = new SortedTable(host, { caption: `The largest values of ${of}, and why each stays`, rows: valueRows(model.sides[s]), first: 3, page: 25,
    sum: (rows) => `${plural(rows.length, "value")}, ${showBytes(rows.reduce((all, row) => all + row.bytes, 0))} together`,
    search: "Search names, ops, layers, reasons", columns: [
      { title: "Value", key: (r) => r.name, show: (r) => link(r.name, "show its life in the charts", () => goTo(s, r.first, r.last)),
        find: (r) => r.name, className: "name" },
      { title: "Op", key: (r) => r.op, show: (r) => r.op, find: (r) => r.op, className: "name" },
      { title: "Layer", key: (r) => r.layer, show: (r) => r.layer, find: (r) => r.layer, className: "name" },
      { title: "Bytes", key: (r) => r.bytes, show: (r) => showBytes(r.bytes), className: "number" },
      { title: "Steps", key: (r) => r.last - r.first, show: (r) => `${showCount(r.first)}–${showCount(r.last)}`, className: "number" },
      { title: "At the peak", key: (r) => Number(r.atPeak), show: (r) => (r.atPeak ? "yes" : "no") },
      { title: "Why it stays", key: (r) => r.text, show: (r) => r.text, find: (r) => r.text, className: "text" }] });
  table.addFilter("live at the peak", (row) => row.atPeak, true);
  if (!model.arenaOnly) table.addFilter("waits for the backward pass", (row) => row.waits);
  return table;
}

/** Ops that run again on a side: how often, how long, and, of one plan, what waited for them without Echo. */
function againRows(model, s) {
  const before = model.sides[0], side = model.sides[s], { graph } = side, rows = new Map();
  const row = (n) => {
    const op = graph.ops[graph.op[n]];
    if (!rows.has(op)) rows.set(op, { op, runs: 0, inside: 0, ns: 0, bytes: 0 });
    return rows.get(op);
  };
  for (const [n, steps] of side.again)
    for (const t of steps) {
      const inside = side.kind[t] === FUSED;
      row(n)[inside ? "inside" : "runs"] += 1;
      if (!inside) row(n).ns += graph.ns[n];
    }
  if (!model.before)
    for (const [i, why] of before.reasons)
      if (why.kind !== "result" && side.again.has(why.value)) row(why.value).bytes += before.storages.bytes[i];
  return [...rows.values()];
}

function againTable(host, model, s) {
  const total = model.sides[s].graph.ns.reduce((sum, ns) => sum + ns, 0) || 1;
  const waited = { title: "Waited without Echo", key: (r) => r.bytes, show: (r) => showBytes(r.bytes), className: "number" };
  return new SortedTable(host, { caption: `What runs again${model.before ? ` in ${model.sides[s].title}` : ""}, by op`, rows: againRows(model, s), first: 4, page: 20, columns: [
    { title: "Op", key: (r) => r.op, show: (r) => r.op, className: "name" },
    { title: "Runs", key: (r) => r.runs, show: (r) => showCount(r.runs), className: "number" },
    { title: "Inside readers", key: (r) => r.inside, show: (r) => showCount(r.inside), className: "number" },
    { title: "Time", key: (r) => r.ns, show: (r) => showTime(r.ns), className: "number" },
    ...(model.before ? [] : [waited]),
    { title: "Of a step's time", key: (r) => r.ns / total, show: (r) => showPercent(r.ns / total), className: "number" }] });
}

function percentTable(host, model) {
  const { baselinePeak } = model.plan;
  return new SortedTable(host, { caption: "What each further percent buys", rows: percentRows(model), sortable: false, columns: [
    { title: "Within", show: (r) => `${r.chosen ? "the plan: " : ""}${r.percent} %`, className: "number" },
    { title: "Least peak", show: (r) => showBytes(r.least), className: "number" },
    { title: "Smaller", show: (r) => `${(baselinePeak / r.least).toFixed(2)} ×`, className: "number" },
    { title: "Buys, per percent", show: (r) => (r.buys === null ? "–" : showBytes(r.buys)), className: "number" }] });
}
