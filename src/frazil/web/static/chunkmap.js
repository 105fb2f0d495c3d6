// Chunk maps: one square for each chunk, or for several, coloured by what was chosen.
import { ask, el, keep, params, size, withParams } from "./net.js";
import { scale, step } from "./colours.js";
import { stepped } from "./picture.js";

const KINDS = ["absent", "inline", "native", "virtual", "several kinds"];
const NAMES = { kind: "kind", size: "size", age: "age", commit: "commit" };

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Two times for people: their days, and the hours too if it is the same day. */
function days(...times) {
  const texts = times.map((each) => new Date(each).toISOString().slice(0, 16).replace("T", " "));
  const same = texts[0].slice(0, 10) === texts[1].slice(0, 10);
  return texts.map((text) => (same ? text : text.slice(0, 10)));
}

class ChunkMap {
  constructor(root) {
    this.root = root;
    this.canvas = el("canvas", { role: "img", "aria-label": "Map of chunks", tabindex: "0" });
    this.legend = el("div", { class: "legend" });
    this.told = el("p", { class: "dim told", text: " " });
    this.controls = el("div", { class: "controls" });
    this.by = root.dataset.by;
    this.state = root.dataset.controls ? params() : {};
    if (this.state.by in NAMES) this.by = this.state.by;
    root.replaceChildren(this.controls, el("div", { class: "map-frame" }, this.canvas), this.legend, this.told);
    this.canvas.addEventListener("pointermove", (event) => this.point(this.cell(event)));
    this.canvas.addEventListener("click", (event) => this.open(this.cell(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    addEventListener("resize", () => this.draw());
    addEventListener("frazil-theme", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    this.load();
  }

  async load() {
    const { y, x, ...rest } = this.state;
    const fixed = Object.fromEntries(Object.entries(rest).filter(([name]) => /^c\d+$/.test(name)));
    try {
      this.data = await ask(withParams(this.root.dataset.api, { by: this.by === "changed" ? null : this.by, y, x, ...fixed }));
    } catch (error) {
      this.told.textContent = error.message;
      this.root.dataset.ready = "1";
      return;
    }
    if (this.root.dataset.controls) this.drawControls();
    this.draw();
    this.root.dataset.ready = "1";
  }

  drawControls() {
    const { grid, dims, y, x } = this.data;
    const select = (label, options, value, change) => el("label", {}, `${label} `,
      el("select", { onchange: (event) => change(event.target.value) },
        ...options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value), text }))));
    const set = (changes) => {
      Object.assign(this.state, changes);
      keep(changes);
      this.load();
    };
    const parts = [select("Coloured by", Object.entries(NAMES), this.by, (value) => { this.by = value; set({ by: value }); })];
    if (grid.length > 2) {
      const axes = dims.map((name, n) => [n, name]);
      parts.push(select("rows", axes.filter(([n]) => n !== x), y, (value) => set({ y: value, x })));
      parts.push(select("columns", axes.filter(([n]) => n !== y), x, (value) => set({ y, x: value })));
      dims.forEach((name, n) => {
        if (n === y || n === x || grid[n] < 2) return;
        const value = this.state[`c${n}`] ?? "";
        const input = el("input", { type: "number", min: 0, max: grid[n] - 1, placeholder: "all", value });
        input.addEventListener("change", () => set({ [`c${n}`]: input.value }));
        parts.push(el("label", {}, `${name} `, input));
      });
    }
    this.controls.replaceChildren(...parts);
  }

  colour(cell) {
    const data = this.data;
    if (this.by === "changed") {
      if (data.changed[cell]) return css("--changed");
      return data.count[cell] ? css("--chunk-present") : null;
    }
    if (!data.count[cell]) return null;
    if (this.by === "size") return this.shade(step(Math.log(data.bytes[cell] + 1), ...this.range));
    if (this.by === "age" || this.by === "commit") {
      const number = data.written[cell];
      if (number < 0) return css("--chunk-present");
      if (this.by === "commit") return css(`--lane-${number % 8}`);
      const time = Date.parse(data.commits[number].time);
      return this.shade(step(time, ...this.range));
    }
    return css(["", "--inline", "--native", "--virtual", "--mixed"][data.kind[cell]]);
  }

  shade(n) {
    const table = this.table;
    return `rgb(${table[3 * n]},${table[3 * n + 1]},${table[3 * n + 2]})`;
  }

  draw() {
    const data = this.data;
    if (!data) return;
    this.table = scale("viridis");
    if (this.by === "size") {
      const sizes = data.bytes.filter((n, i) => data.count[i]).map((n) => Math.log(n + 1));
      this.range = [Math.min(...sizes, Infinity), Math.max(...sizes, -Infinity)];
    } else if (this.by === "age") {
      const times = data.written.filter((n) => n >= 0).map((n) => Date.parse(data.commits[n].time));
      this.range = [Math.min(...times, Infinity), Math.max(...times, -Infinity)];
    }
    const room = Math.max(120, this.root.clientWidth - 2);
    const side = Math.max(2, Math.min(28, Math.floor(room / data.columns), Math.floor(420 / data.rows) || 2));
    const fitX = Math.min(side, room / data.columns);
    const width = Math.max(1, Math.round(fitX * data.columns)), height = Math.max(6, Math.round(side * data.rows));
    const ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = css("--absent");
    pen.fillRect(0, 0, width, height);
    const cw = width / data.columns, ch = height / data.rows, gap = Math.min(cw, ch) >= 7 ? 1 : 0;
    for (let row = 0; row < data.rows; row++) {
      for (let column = 0; column < data.columns; column++) {
        const fill = this.colour(row * data.columns + column);
        if (fill === null && !gap) continue;
        pen.fillStyle = fill ?? css("--hole");
        pen.fillRect(column * cw, row * ch, Math.max(cw - gap, 0.5), Math.max(ch - gap, 0.5));
      }
    }
    if (this.at && this.at.row < data.rows && this.at.column < data.columns) {
      pen.strokeStyle = css("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(this.at.column * cw + 1, this.at.row * ch + 1, Math.max(cw - gap - 2, 1), Math.max(ch - gap - 2, 1));
    }
    this.drawLegend();
  }

  drawLegend() {
    const data = this.data;
    const key = (name, text) => el("span", { class: "key-text" }, el("span", { class: `key ${name}` }), text);
    const axis = (n, bin) => (n === null ? "" : `${data.dims[n]}: ${data.grid[n]} chunk${data.grid[n] === 1 ? "" : "s"}${bin > 1 ? `, ${bin} in a cell` : ""}`);
    const axes = [data.y !== null ? `↓ ${axis(data.y, data.bin[0])}` : "", data.x !== null ? `→ ${axis(data.x, data.bin[1])}` : ""].filter(Boolean).join("   ");
    const parts = [];
    if (this.by === "changed") parts.push(key("changed", `changed (${data.total})`), key("present", "unchanged"), key("hole", "no chunk"));
    else if (this.by === "size" && data.count.some(Boolean)) parts.push(this.ramp(size(Math.round(Math.exp(this.range[0]) - 1)), size(Math.round(Math.exp(this.range[1]) - 1))));
    else if (this.by === "age" && data.written.some((n) => n >= 0)) parts.push(this.ramp(...days(...this.range)));
    else if (this.by === "commit") {
      const used = [...new Set(data.written.filter((n) => n >= 0))].sort((a, b) => a - b).slice(0, 8);
      parts.push(...used.map((n) => el("span", { class: "key-text" }, el("span", { class: `key lane-${n % 8}` }),
        el("a", { href: withParams(this.root.dataset.commit, { v: data.commits[n].id }), text: data.commits[n].id.slice(0, 8) }), ` ${data.commits[n].message.split("\n")[0].slice(0, 40)}`)));
    } else {
      [1, 2, 3, 4].filter((n) => data.kind.includes(n)).forEach((n) => parts.push(key(["", "inline", "native", "virtual", "mixed"][n], KINDS[n])));
      if (data.kind.includes(0)) parts.push(key("hole", "no chunk"));
    }
    this.legend.replaceChildren(...parts, el("span", { class: "dim axes", text: axes }));
  }

  ramp(low, high) {
    const bar = el("canvas", { width: 256, height: 1, class: "ramp" });
    const pen = bar.getContext("2d");
    for (let n = 0; n < 256; n++) { pen.fillStyle = this.shade(n); pen.fillRect(n, 0, 1, 1); }
    return el("span", { class: "key-text" }, low, " ", bar, " ", high);
  }

  cell(event) {
    const data = this.data;
    if (!data) return null;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * data.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * data.rows);
    if (column < 0 || row < 0 || column >= data.columns || row >= data.rows) return null;
    return { row, column, number: row * data.columns + column };
  }

  /** Arrows go from cell to cell, Enter opens one. */
  key(event) {
    if (!this.data) return;
    if (event.key === "Enter" && this.at) this.open(this.at);
    const next = stepped(event.key, this.at || { row: 0, column: -1 }, this.data.rows, this.data.columns);
    if (!next) return;
    event.preventDefault();
    this.at = { ...next, number: next.row * this.data.columns + next.column };
    this.draw();
    this.point(this.at);
  }

  point(cell) {
    if (!cell) return;
    const data = this.data;
    const place = [];
    const from = (n, at, bin) => {
      const first = at * bin, last = Math.min(first + bin, data.grid[n]) - 1;
      return `${data.dims[n]} ${first === last ? first : `${first}–${last}`}`;
    };
    if (data.y !== null) place.push(from(data.y, cell.row, data.bin[0]));
    if (data.x !== null) place.push(from(data.x, cell.column, data.bin[1]));
    const count = data.count[cell.number];
    const what = count ? `${KINDS[data.kind[cell.number]]}, ${count} chunk${count === 1 ? "" : "s"}, ${size(data.bytes[cell.number])}` : "no chunk";
    const changed = this.by === "changed" ? `, ${data.changed[cell.number]} changed` : "";
    const number = data.written ? data.written[cell.number] : -1;
    const commit = number >= 0 ? `, written by ${data.commits[number].id.slice(0, 8)} on ${data.commits[number].time.slice(0, 10)}` : "";
    this.told.textContent = `${place.join(", ") || "the chunk"}: ${what}${changed}${commit}`;
  }

  async open(cell) {
    const data = this.data;
    if (!cell || !this.root.dataset.detail || data.cell_chunks !== 1) return;
    const index = data.grid.map((n, axis) => (axis === data.y ? cell.row : axis === data.x ? cell.column : data.fixed[axis] ?? 0));
    try {
      const found = await ask(withParams(this.root.dataset.detail, { index: index.join(",") }));
      const facts = Object.entries(found).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(",") : value}`);
      this.told.textContent = facts.join(" · ");
    } catch (error) {
      this.told.textContent = error.message;
    }
  }
}

for (const root of document.querySelectorAll(".chunkmap")) new ChunkMap(root);
