// Where a page stands in an array: shown axes, places on the others, window, colours; kept in its address.
import { el, keep, params } from "./net.js";
import { NAMES } from "./colours.js";

/** The state of a view, and the controls that change it. */
export class Stand {
  constructor(about, changed, { colours = "viridis" } = {}) {
    this.about = about;
    this.changed = changed;
    const given = params(), n = about.shape.length;
    const number = (name, fallback) => (/^\d+$/.test(given[name] ?? "") ? Number(given[name]) : fallback);
    this.x = n ? Math.min(number("x", n - 1), n - 1) : null;
    this.y = n > 1 ? Math.min(number("y", n - 2), n - 1) : null;
    if (this.x === this.y && n > 1) this.y = this.x ? this.x - 1 : 1;
    this.at = about.shape.map((length, axis) => Math.min(number(`i${axis}`, 0), Math.max(length - 1, 0)));
    this.windows = {};
    for (let axis = 0; axis < n; axis++) {
      const start = number(`s${axis}`, null), stop = number(`e${axis}`, null);
      if (start !== null && stop !== null && stop > start) this.windows[axis] = [start, stop];
    }
    this.colours = NAMES.includes(given.colours) ? given.colours : colours;
    this.low = given.lo !== undefined && given.lo !== "" && Number.isFinite(Number(given.lo)) ? Number(given.lo) : null;
    this.high = given.hi !== undefined && given.hi !== "" && Number.isFinite(Number(given.hi)) ? Number(given.hi) : null;
    this.raw = given.raw === "1";
    this.labels = new Map();
  }

  get shown() {
    return [this.y, this.x].filter((axis) => axis !== null);
  }

  get hidden() {
    return this.about.shape.map((_, axis) => axis).filter((axis) => !this.shown.includes(axis));
  }

  /** Parameters of a request for what is shown. */
  query(most) {
    const found = { y: this.y, x: this.x, most, raw: this.raw ? 1 : null, all: this.about.shape.length ? null : 1 };
    for (const axis of this.hidden) found[`i${axis}`] = this.at[axis];
    for (const axis of this.shown) if (this.windows[axis]) [found[`s${axis}`], found[`e${axis}`]] = this.windows[axis];
    return found;
  }

  /** Change the state, its address, and what is shown. */
  set(changes) {
    const kept = {};
    for (const [name, value] of Object.entries(changes)) {
      if (name === "at") for (const [axis, index] of Object.entries(value)) { this.at[axis] = index; kept[`i${axis}`] = index; }
      else if (name === "windows") {
        for (const axis of this.about.shape.keys()) { kept[`s${axis}`] = null; kept[`e${axis}`] = null; }
        this.windows = value;
        for (const [axis, [start, stop]] of Object.entries(value)) { kept[`s${axis}`] = start; kept[`e${axis}`] = stop; }
      } else {
        this[name] = value;
        kept[{ low: "lo", high: "hi" }[name] || name] = name === "raw" ? (value ? 1 : null) : value;
      }
    }
    keep(kept);
    this.changed();
  }

  /** Sliders and choices, made anew. */
  controls() {
    const { dims, shape } = this.about;
    const parts = [];
    for (const axis of this.hidden) {
      const slider = el("input", { type: "range", min: 0, max: Math.max(shape[axis] - 1, 0), value: this.at[axis], "aria-label": dims[axis], "data-axis": axis });
      const label = el("output", { class: "where", text: `${this.at[axis]}` });
      this.labels.set(axis, label);
      slider.addEventListener("input", () => { label.textContent = slider.value; this.set({ at: { [axis]: Number(slider.value) } }); });
      const by = (step) => () => { const next = Math.max(0, Math.min(shape[axis] - 1, this.at[axis] + step)); slider.value = next; this.set({ at: { [axis]: next } }); };
      parts.push(el("div", { class: "slider" }, el("span", { class: "name", text: dims[axis], title: dims[axis] }),
        el("button", { type: "button", class: "quiet", "aria-label": `${dims[axis]} back`, onclick: by(-1) }, "‹"), slider,
        el("button", { type: "button", class: "quiet", "aria-label": `${dims[axis]} forward`, onclick: by(1) }, "›"), label));
    }
    return parts;
  }

  choices() {
    const { dims } = this.about;
    const select = (label, id, options, value, change) => el("label", {}, `${label} `,
      el("select", { id, onchange: (event) => change(event.target.value) }, ...options.map(([key, text]) => el("option", { value: key, selected: String(key) === String(value), text }))));
    const bound = (label, name, id) => {
      const input = el("input", { type: "number", step: "any", id, placeholder: "auto", value: this[name] ?? "" });
      input.addEventListener("change", () => this.set({ [name]: input.value === "" ? null : Number(input.value) }));
      return el("label", {}, `${label} `, input);
    };
    const parts = [];
    if (dims.length > 2) {
      const axes = dims.map((name, n) => [n, name]);
      const change = (which) => (value) => { const axis = Number(value); this.set({ [which]: axis, ...(this[which === "x" ? "y" : "x"] === axis ? { [which === "x" ? "y" : "x"]: this[which] } : {}), windows: {} }); this.rebuilt?.(); };
      parts.push(select("rows", "axis-y", axes, this.y, change("y")), select("columns", "axis-x", axes, this.x, change("x")));
    }
    if (dims.length > 1) parts.push(select("colours", "colours", NAMES.map((name) => [name, name]), this.colours, (value) => this.set({ colours: value })), bound("from", "low", "low"), bound("to", "high", "high"));
    const raw = el("input", { type: "checkbox", id: "raw" });
    raw.checked = this.raw;
    raw.addEventListener("change", () => this.set({ raw: raw.checked }));
    parts.push(el("label", {}, raw, " as stored"));
    return parts;
  }
}

/** The ends of the colour scale: what was chosen, else what the values have. */
export function ends(stand, range) {
  const [low, high] = range || [0, 1];
  return [stand.low ?? low, stand.high ?? high];
}
