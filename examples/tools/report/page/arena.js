// SPDX-License-Identifier: BSL-1.0
// The arena of the plan: steps or time from left to right, offsets from bottom to top.

class ArenaChart {
  constructor(host, model, zoomed) {
    Object.assign(this, { host, model, zoomed, sideIndex: 1, side: model.sides[1] });
    this.range = [this.side.begin, Math.max(this.side.begin + 1, this.side.steps - 1)];
    this.heights = [0, this.side.arena];
    this.tip = new Tooltip(host);
    this.step = this.side.peakStep;
    describeChart(host, `The arena of ${showBytes(this.side.arena)}, ${this.side.title}: where each tensor lies while it is needed`);
    chartKeys(host, this);
  }

  draw(stack, along) {
    Object.assign(this, { stack, along, begins: this.side.begins[along] });
    this.load = stack.sides[1];
    this.plot?.destroy();
    const range = () => extentOf(this.begins, this.range), heights = () => this.heights;
    this.plot = new uPlot({ ...chartSize(this.host, 380), legend: { show: false },
      series: [{}, { points: { show: false }, paths: () => null }], axes: [alongAxis(along), byteAxis()],
      scales: { x: { time: false, range }, y: { range: heights } },
      cursor: { points: { show: false }, drag: { x: true, y: true, uni: 30, setScale: false, dist: 4 },
        bind: { dblclick: () => () => { this.showAll(); } } },
      hooks: { drawSeries: [(u) => this.paint(u)], setCursor: [(u) => this.hover(u)], setSelect: [(u) => this.select(u)] } },
    [[0, Math.max(1, this.begins.at(-1))], [null, null]], this.host);
  }

  showAll() {
    this.heights = [0, this.side.arena];
    this.zoomed(this.side.begin, this.side.steps - 1);
  }

  setRange(from, to) {
    this.range = [from, Math.max(from + 1, to)];
    if (from <= this.side.begin && to >= this.side.steps - 1 && !this.keepHeights) this.heights = [0, this.side.arena];
    this.plot.batch(() => {
      const [min, max] = extentOf(this.begins, this.range);
      this.plot.setScale("x", { min, max });
      this.plot.setScale("y", { min: this.heights[0], max: this.heights[1] });
    });
  }

  select(u) {
    const { left, top, width, height } = u.select;
    if (width < 4 && height < 4) return;
    const whole = height < 4 || height >= u.over.clientHeight - 1;
    if (!whole) this.heights = [Math.max(0, u.posToVal(top + height, "y")), Math.min(this.side.arena, u.posToVal(top, "y"))];
    const chosen = width < 4 ? this.range : stepsWithin(this.begins, u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.keepHeights = true;
    this.zoomed(...chosen);
    this.keepHeights = false;
  }

  /** Fills an image pixel by pixel and puts it where the chart is: tensors do not overlap, so that this costs no more than
   *  the pixels and the tensors in sight. */
  paint(u) {
    const { left, top, width, height } = u.bbox, image = new ImageData(Math.round(width), Math.round(height));
    fillBlocks(new Uint32Array(image.data.buffer), image.width, image.height, this);
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").putImageData(image, 0, 0);
    u.ctx.drawImage(canvas, left, top);
  }

  hover(u) {
    const { left, top } = u.cursor;
    if (left < 0 || left === undefined || left === null) return this.tip.hide();
    const [step] = stepsWithin(this.begins, u.posToVal(left, "x"), Infinity), offset = u.posToVal(top, "y"), i = this.blockAt(step, offset);
    const at = [left + u.over.offsetLeft, top + u.over.offsetTop];
    if (i < 0) return this.tip.show([`${stepText(this.side, this.along, step)}: free`, `offset ${showBytes(Math.max(0, offset))}`], ...at, false);
    this.tip.show(this.linesOf(i), ...at, false);
  }

  linesOf(i) {
    const lines = storageLines(this.model, 1, i), group = this.load.of[i];
    lines.splice(1, 0, [groupColour(this.stack, group), this.stack.groups[group]]);
    return [...lines, `Lies at offset ${showBytes(this.side.storages.offset[i])}`];
  }

  blockAt(step, offset) {
    const { storages: st } = this.side;
    for (let i = 0; i < st.count && st.first[i] <= step; ++i)
      if (st.last[i] >= step && st.offset[i] <= offset && offset < st.offset[i] + st.bytes[i]) return i;
    return -1;
  }

  /** By keyboard: what is largest at a step. */
  moveCursor(direction) {
    this.step = nextStep(this, direction);
    const i = largestAt(this.side, this.load, -1, this.step, 1)[0], left = this.plot.valToPos(this.begins[this.step], "x");
    this.plot.setCursor({ left, top: 20 }, false);
    const first = stepText(this.side, this.along, this.step);
    this.tip.show(i === undefined ? [first, "Nothing is live"] : [`${first}, the largest:`, ...this.linesOf(i)], left, 20, true);
  }
}

/** "#rrggbb" as a pixel; `shade` makes it darker. */
function pixelOf(colour, shade = 1) {
  const [r, g, b] = [1, 3, 5].map((at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * shade));
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}

function fillBlocks(pixels, width, height, chart) {
  const { storages: st } = chart.side, { of } = chart.load, { begins, range: [from, to] } = chart, [low, high] = chart.heights;
  const colours = chart.stack.groups.map((_, g) => groupColour(chart.stack, g));
  const inner = colours.map((c) => pixelOf(c)), rim = colours.map((c) => pixelOf(c, 0.78));
  const [left, right] = extentOf(begins, chart.range), across = width / (right - left), up = height / (high - low);
  for (let i = 0; i < st.count; ++i) {
    if (st.first[i] > to || st.last[i] < from || st.offset[i] >= high || st.offset[i] + st.bytes[i] <= low) continue;
    const x0 = Math.max(0, Math.floor((begins[st.first[i]] - left) * across));
    const x1 = Math.min(width, Math.max(x0 + 1, Math.floor((begins[st.last[i] + 1] - left) * across)));
    const bottom = height - Math.max(0, Math.floor((st.offset[i] - low) * up));
    const top = Math.max(0, Math.min(bottom - 1, height - Math.floor((st.offset[i] + st.bytes[i] - low) * up)));
    const edged = x1 - x0 > 3 && bottom - top > 3, g = of[i];
    for (let y = top; y < bottom; ++y) {
      const row = y * width;
      pixels.fill(edged && y === top ? rim[g] : inner[g], row + x0, row + x1);
      if (edged) pixels[row + x0] = rim[g];
    }
  }
}
