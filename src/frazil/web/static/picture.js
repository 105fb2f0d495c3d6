// A plane of values as a picture with axes, and a line of values as a plot.
import { el, shown, svg, time } from "./net.js";
import { scale, step } from "./colours.js";

/** Smallest and largest finite value, or null where there is none. */
export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (let n = 0; n < values.length; n++) {
    const value = values[n];
    if (value < low && value > -Infinity) low = value;
    if (value > high && value < Infinity) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** Round places for ticks between two numbers. */
export function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough;
  const found = [];
  for (let n = Math.ceil(low / unit - 1e-9); n * unit <= high + unit * 1e-9; n++) found.push(Number((n * unit).toPrecision(12)));
  return found;
}

/** Text of a value as its header says. */
export function worded(header, value, digits) {
  if (header.kind === "time") return time(value);
  const units = header.units ? ` ${header.units}` : "";
  return Number.isNaN(value) ? "missing" : `${shown(value, digits)}${units}`;
}

/** Text of the place of a cell along an axis: its coordinate if there is one, else its number. */
export function placed(axis, dim, n) {
  const index = axis.start + n * axis.step;
  if (axis.values && axis.values[n] !== null && axis.values[n] !== undefined) {
    const value = axis.values[n];
    return `${dim} ${axis.kind === "number" ? shown(value) : value}${axis.units ? ` ${axis.units}` : ""} [${index}]`;
  }
  return `${dim} [${index}]`;
}

/** Places and texts of ticks along an axis of `count` cells, as parts of its length. */
function axisTicks(axis, count, room) {
  const most = Math.max(1, room);
  if (!count) return [];
  if (axis.kind === "number" && axis.values && count > 1 && axis.values.every((v) => v !== null)) {
    const first = axis.values[0], last = axis.values[count - 1];
    const even = (last - first) / (count - 1);
    const regular = even !== 0 && axis.values.every((v, n) => Math.abs(v - (first + even * n)) <= Math.abs(even) * 0.51);
    if (regular) {
      return ticks(Math.min(first, last), Math.max(first, last), most)
        .map((value) => ({ at: ((value - first) / even + 0.5) / count, text: shown(value) }));
    }
  }
  if (!axis.values) {
    const last = axis.start + (count - 1) * axis.step;
    return [...new Set(ticks(axis.start, last, most).map(Math.round))]
      .map((value) => ({ at: ((value - axis.start) / axis.step + 0.5) / count, text: String(value) }));
  }
  const found = [];
  const unit = Math.max(1, Math.ceil(count / most));
  for (let n = 0; n < count; n += unit) {
    const value = axis.values[n];
    found.push({ at: (n + 0.5) / count, text: value === null ? "" : axis.kind === "number" ? shown(value, 4) : String(value) });
  }
  return found;
}

/** Ticks whose texts do not touch, in the order of their places; letters are about 7 wide. */
function apart(found, place, anchor) {
  let end = -Infinity;
  return found.filter((tick) => {
    const at = place(tick), wide = tick.text.length * 7 + 6, side = anchor(tick);
    const begin = side === "middle" ? at - wide / 2 : side === "end" ? at - wide : at;
    if (begin < end) return false;
    end = begin + wide;
    return true;
  });
}

/** The cell that an arrow key leads to from another one, or null for other keys. */
export function stepped(key, from, rows, columns, upward = false) {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [upward ? 1 : -1, 0], ArrowDown: [upward ? -1 : 1, 0] };
  if (!(key in steps) || !rows || !columns) return null;
  const [down, across] = steps[key];
  return { row: Math.max(0, Math.min(rows - 1, from.row + down)), column: Math.max(0, Math.min(columns - 1, from.column + across)) };
}

/** A picture of a plane. */
export class Picture {
  constructor(label, events = {}) {
    this.canvas = el("canvas", { class: "plane", role: "img", "aria-label": label, tabindex: "0" });
    this.axes = svg("svg", { class: "axes", "aria-hidden": "true" });
    this.cross = el("div", { class: "cross", hidden: true });
    this.band = el("div", { class: "band", hidden: true });
    this.frame = el("div", { class: "frame" }, this.axes, this.canvas, this.cross, this.band);
    this.element = el("div", { class: "picture" }, this.frame);
    this.events = events;
    this.watch();
  }

  watch() {
    let begin = null;
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => {
      const cell = this.cell(event);
      if (begin && cell) this.drag(begin, event);
      if (cell && this.events.point) this.events.point(cell);
    });
    canvas.addEventListener("pointerleave", () => this.events.leave?.());
    canvas.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch") return;
      begin = { cell: this.cell(event), x: event.clientX, y: event.clientY };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (event) => {
      const from = begin, to = this.cell(event);
      begin = null;
      this.band.hidden = true;
      if (from && to && Math.hypot(event.clientX - from.x, event.clientY - from.y) > 8) this.events.zoom?.(from.cell, to);
      else if (to) this.events.pick?.(to);
      if (from && to && Math.hypot(event.clientX - from.x, event.clientY - from.y) > 8) this.dragged = true;
    });
    canvas.addEventListener("click", (event) => {
      if (event.pointerType === "touch") { const cell = this.cell(event); if (cell) { this.events.point?.(cell); this.events.pick?.(cell); } }
    });
    canvas.addEventListener("dblclick", () => this.events.reset?.());
    canvas.addEventListener("keydown", (event) => this.events.key?.(event));
  }

  drag(begin, event) {
    if (Math.hypot(event.clientX - begin.x, event.clientY - begin.y) <= 8) return;
    const box = this.frame.getBoundingClientRect();
    const [left, right] = [begin.x, event.clientX].sort((a, b) => a - b), [top, bottom] = [begin.y, event.clientY].sort((a, b) => a - b);
    this.band.hidden = false;
    Object.assign(this.band.style, { left: `${left - box.left}px`, top: `${top - box.top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
  }

  /** The cell under a pointer, as its row and column in the data. */
  cell(event) {
    if (!this.shape) return null;
    const box = this.canvas.getBoundingClientRect();
    const [rows, columns] = this.shape;
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    let row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    if (column < 0 || row < 0 || column >= columns || row >= rows) return null;
    if (this.upward) row = rows - 1 - row;
    return { row, column };
  }

  draw(header, values, dims, { low, high, colours, upward }) {
    const [rows, columns] = header.shape;
    Object.assign(this, { shape: [rows, columns], header, values, dims, upward });
    this.canvas.width = Math.max(columns, 1);
    this.canvas.height = Math.max(rows, 1);
    const pen = this.canvas.getContext("2d");
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (rows && columns) {
      const table = scale(colours), image = pen.createImageData(columns, rows), pixels = image.data;
      for (let row = 0; row < rows; row++) {
        const from = (upward ? rows - 1 - row : row) * columns;
        for (let column = 0; column < columns; column++) {
          const value = values[from + column];
          if (Number.isNaN(value)) continue; // transparent: the hatching behind it shows
          const n = 3 * (value === Infinity ? 255 : value === -Infinity ? 0 : step(value, low, high));
          const at = 4 * (row * columns + column);
          pixels[at] = table[n];
          pixels[at + 1] = table[n + 1];
          pixels[at + 2] = table[n + 2];
          pixels[at + 3] = 255;
        }
      }
      pen.putImageData(image, 0, 0);
    }
    this.layOut();
  }

  layOut() {
    if (!this.shape) return;
    const [rows, columns] = this.shape;
    const [down, across] = this.header.axes;
    const left = 74, bottom = 46, top = 8, right = 18;
    this.frame.style.width = "0";  // a wide picture must not keep its place wide when the window shrinks
    this.axes.setAttribute("width", 0);
    const room = Math.max(140, this.element.clientWidth - left - right);
    const ratio = rows && columns ? (rows * down.step) / (columns * across.step) : 0.5;
    const height = Math.round(Math.max(Math.min(room * ratio, 520), Math.min(room * 0.25, 150)));
    const width = Math.round(ratio && room * ratio > 520 ? Math.max(Math.min(room, 520 / ratio), 220) : room);
    Object.assign(this.canvas.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    this.frame.style.height = `${top + height + bottom}px`;
    this.frame.style.width = `${left + width + right}px`;
    const parts = [];
    const above = (tick) => left + tick.at * width;
    const inside = axisTicks(across, columns, Math.floor(width / (across.kind === "text" ? 90 : 48))).filter((tick) => above(tick) >= left && above(tick) <= left + width);
    for (const tick of apart(inside, above, () => "middle")) {
      const x = above(tick);
      parts.push(svg("line", { x1: x, x2: x, y1: top + height, y2: top + height + 5 }), svg("text", { x, y: top + height + 18, "text-anchor": "middle" }, tick.text));
    }
    for (const tick of axisTicks(down, rows, Math.floor(height / 26))) {
      const y = top + (this.upward ? 1 - tick.at : tick.at) * height;
      if (y < top || y > top + height) continue;
      parts.push(svg("line", { x1: left - 5, x2: left, y1: y, y2: y }), svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, clipped(tick.text, 9)));
    }
    parts.push(svg("text", { class: "title", x: left + width / 2, y: top + height + 38, "text-anchor": "middle" }, titled(this.dims[1], across.units, width)));
    parts.push(upright(12, top + height / 2, titled(this.dims[0], down.units, height)));
    this.axes.setAttribute("width", left + width + right);
    this.axes.setAttribute("height", top + height + bottom);
    this.axes.replaceChildren(...parts);
    this.box = { left, top, width, height };
    if (this.marked) this.mark(this.marked);
  }

  /** Show which cell is looked at. */
  mark(cell) {
    this.marked = cell;
    if (!cell || !this.box) { this.cross.hidden = true; return; }
    const [rows, columns] = this.shape;
    const row = this.upward ? rows - 1 - cell.row : cell.row;
    this.cross.hidden = false;
    Object.assign(this.cross.style, {
      left: `${this.box.left + ((cell.column + 0.5) / columns) * this.box.width}px`,
      top: `${this.box.top + ((row + 0.5) / rows) * this.box.height}px`,
    });
  }
}

/** A name with its units, cut to the room there is for it; letters are about 7 wide. */
function titled(name, units, room) {
  return clipped(units ? `${name} (${units})` : name, Math.max(8, Math.floor(room / 7)));
}

/** Text that is read from below, around a place. */
function upright(x, y, text) {
  return svg("text", { class: "title", x, y, "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})` }, text);
}

function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** A plot of a line of values; the place of one of them may be marked. */
export function linePlot(header, values, dim, marked, label, width = 640) {
  const height = 220, right = 16, top = 12, bottom = 44;
  const made = svg("svg", { class: "plot", width, height, role: "img", "aria-label": label });
  const axis = header.axes[0], range = extent(values);
  const count = values.length;
  if (!count || !range) {
    made.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle", class: "title" }, count ? "all missing" : "no values"));
    return made;
  }
  let [low, high] = range;
  if (low === high) { low -= Math.abs(low) * 0.05 || 1; high += Math.abs(high) * 0.05 || 1; }
  const marks = ticks(low, high, 6).map((value) => ({ value, text: header.kind === "time" ? time(value).slice(0, 10) : shown(value, 5) }));
  const units = header.kind === "time" ? "" : header.units || "";
  const left = Math.max(...marks.map((mark) => mark.text.length)) * 7 + (units ? 34 : 16);
  const x = (n) => left + (count === 1 ? 0.5 : n / (count - 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - low) / (high - low)) * (height - top - bottom);
  for (const { value, text } of marks) {
    made.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      svg("text", { class: "tick", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, text));
  }
  if (units) made.append(upright(12, top + (height - top - bottom) / 2, titled(units, "", height - top - bottom)));
  const across = (tick) => Math.min(Math.max(x(tick.at * count - 0.5), left), width - right);
  const anchor = (tick) => (across(tick) > width - right - 30 ? "end" : across(tick) < left + 30 ? "start" : "middle");
  for (const tick of apart(axisTicks(axis, count, Math.floor(width / (axis.kind === "text" ? 100 : 60))), across, anchor)) {
    made.append(svg("text", { class: "tick", x: across(tick), y: height - bottom + 18, "text-anchor": anchor(tick) }, tick.text));
  }
  made.append(svg("text", { class: "title", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, titled(dim, axis.units, width - left - right)));
  let path = "", pen = false;
  for (let n = 0; n < count; n++) {
    const value = values[n];
    if (!Number.isFinite(value)) { pen = false; continue; }
    path += `${pen ? "L" : "M"}${x(n).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!pen && !Number.isFinite(values[n + 1] ?? NaN)) made.append(svg("circle", { class: "lone", cx: x(n), cy: y(value), r: 2 }));
    pen = true;
  }
  made.append(svg("path", { class: "curve", d: path }));
  if (marked !== null && marked >= 0 && marked < count) made.append(svg("line", { class: "here", x1: x(marked), x2: x(marked), y1: top, y2: height - bottom }));
  return made;
}

/** How often values occur, between two ends. */
export function histogram(values, low, high, colours) {
  const bins = 48, width = 288, height = 72;
  const counts = new Array(bins).fill(0);
  let missing = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) { missing++; continue; }
    if (value < low || value > high) continue;
    counts[high > low ? Math.min(bins - 1, Math.floor(((value - low) / (high - low)) * bins)) : 0]++;
  }
  const most = Math.max(...counts, 1), table = scale(colours);
  const made = svg("svg", { class: "histogram", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": "Histogram of the values shown" });
  counts.forEach((count, n) => {
    const tall = count ? Math.max(1, (count / most) * height) : 0, c = 3 * Math.floor(((n + 0.5) / bins) * 255);
    made.append(svg("rect", { x: (n * width) / bins, y: height - tall, width: width / bins - 0.6, height: tall, fill: `rgb(${table[c]},${table[c + 1]},${table[c + 2]})` }));
  });
  return { element: made, missing };
}

/** The colour scale with its ends. */
export function legend(header, low, high, colours, missing, total) {
  const bar = el("canvas", { class: "ramp", width: 256, height: 1, "aria-hidden": "true" });
  const table = scale(colours), pen = bar.getContext("2d"), image = pen.createImageData(256, 1);
  for (let n = 0; n < 256; n++) image.data.set([table[3 * n], table[3 * n + 1], table[3 * n + 2], 255], 4 * n);
  pen.putImageData(image, 0, 0);
  const text = (value) => (header.kind === "time" ? time(value) : shown(value, 4));
  return el("div", { class: "scale" }, bar,
    el("div", { class: "ends-text" }, el("span", { text: text(low) }), el("span", { text: text((low + high) / 2) }), el("span", { text: text(high) })),
    el("p", { class: "dim", text: [header.units && header.kind !== "time" ? header.units : "", missing ? `${missing} of ${total} missing` : ""].filter(Boolean).join(" · ") || " " }));
}
