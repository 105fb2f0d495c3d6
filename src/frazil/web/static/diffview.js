// One array of two versions: before, after and the difference, side by side.
import { askValues, el, withParams } from "./net.js";
import { Picture, extent, histogram, legend, linePlot, placed, stepped, worded } from "./picture.js";
import { Stand, ends } from "./controls.js";

const root = document.getElementById("view");
const about = JSON.parse(root.querySelector(".about").textContent);
const stand = new Stand(about, () => refresh());
stand.rebuilt = () => build();
const sliders = el("div", { class: "sliders" }), choices = el("div", { class: "controls" });
const told = el("p", { class: "pointer", text: " " }), note = el("p", { class: "note", hidden: true });
const names = ["before", "after", "difference"];
const pictures = names.map((name) => new Picture(`Values ${name}`, { point: (cell) => tell(cell), zoom: (from, to) => zoom(from, to), reset: () => stand.set({ windows: {} }), key: (event) => key(event) }));
const sides = names.map(() => el("div", { class: "side" }));
const stages = names.map((name, n) => el("figure", { class: `third ${name}` }, el("figcaption", { text: name === "difference" ? "after − before" : name }), pictures[n].element, sides[n]));
let running = null, found = [];

function build() {
  sliders.replaceChildren(...stand.controls());
  choices.replaceChildren(...stand.choices());
}

async function refresh() {
  running?.abort();
  const mine = (running = new AbortController());
  root.dataset.ready = "0";
  const query = stand.query(Math.min(512, Math.max(160, pictures[0].element.clientWidth * 2)));
  const url = (one) => withParams(root.dataset.values, { v: one.snapshot, path: one.path, ...query });
  try {
    const sources = [about.before, { path: about.path, snapshot: about.snapshot }];
    const [before, after] = await Promise.all(sources.map((one) => (one ? askValues(url(one), mine.signal) : null)));
    if (mine.signal.aborted) return;
    draw(before, after);
    root.dataset.ready = "1";
  } catch (error) {
    if (error.name === "AbortError") return;
    note.hidden = false;
    note.textContent = error.message;
    root.dataset.ready = "error";
  }
}

/** The difference of the part that both have; where one has no value there is none. */
function difference(before, after) {
  const [rows, columns] = after.header.shape.length === 2 ? after.header.shape : [1, after.header.shape[0] ?? 1];
  const [oldRows, oldColumns] = before.header.shape.length === 2 ? before.header.shape : [1, before.header.shape[0] ?? 1];
  const aligned = before.header.axes.every((axis, n) => axis.start === after.header.axes[n].start && axis.step === after.header.axes[n].step);
  const made = new Float64Array(rows * columns).fill(NaN);
  if (!aligned) return made;
  for (let row = 0; row < Math.min(rows, oldRows); row++) {
    for (let column = 0; column < Math.min(columns, oldColumns); column++) {
      made[row * columns + column] = after.values[row * columns + column] - before.values[row * oldColumns + column];
    }
  }
  return made;
}

function draw(before, after) {
  note.hidden = !!before;
  if (!before) note.textContent = "The earlier version does not have this array.";
  if (after.header.kind === "text" || (before && before.header.kind === "text")) {
    note.hidden = false;
    note.textContent = "These values are no numbers; the changed chunks are shown below.";
    return;
  }
  const gap = before ? difference(before, after) : null;
  const ranges = [before, after].filter(Boolean).map((one) => extent(one.values)).filter(Boolean);
  const both = ranges.length ? [Math.min(...ranges.map((one) => one[0])), Math.max(...ranges.map((one) => one[1]))] : null;
  const [low, high] = ends(stand, both);
  const wide = gap ? extent(gap) : null;
  const reach = wide ? Math.max(Math.abs(wide[0]), Math.abs(wide[1])) || 1 : 1;
  const dims = stand.shown.map((axis) => about.dims[axis]);
  found = [before, after, gap && { header: { ...after.header, kind: "number", units: after.header.kind === "time" ? "µs" : after.header.units }, values: gap }];
  found.forEach((one, n) => {
    stages[n].hidden = !one;
    if (!one) return;
    const [from, to, colours] = n === 2 ? [-reach, reach, "balance"] : [low, high, stand.colours];
    if (stand.shown.length === 2) pictures[n].draw(one.header, one.values, dims, { low: from, high: to, colours, upward: after.header.axes[0].upward });
    else if (stand.shown.length === 1) pictures[n].element.replaceChildren(linePlot(one.header, one.values, dims[0], null, names[n], Math.max(260, pictures[n].element.clientWidth)));
    else pictures[n].element.replaceChildren(el("p", { class: "scalar", text: worded(one.header, one.values[0], 12) }));
    const bars = histogram(one.values, from, to, colours);
    sides[n].replaceChildren(bars.element, legend(one.header, from, to, colours, bars.missing, one.values.length));
  });
  if (gap) {
    const changed = gap.reduce((count, value, n) => count + (value !== 0 && !(Number.isNaN(value) && Number.isNaN(before.values[n]) && Number.isNaN(after.values[n])) ? 1 : 0), 0);
    told.textContent = `${changed} of ${gap.length} cells shown differ`;
    root.dataset.changed = changed;
  }
  for (const [axis, text] of Object.entries(after.header.at)) {
    const label = stand.labels.get(Number(axis));
    if (label) label.textContent = text ? `${text} [${stand.at[axis]}]` : `${stand.at[axis]}`;
  }
}

function tell(cell) {
  const after = found[1];
  if (!after || stand.shown.length !== 2) return;
  const place = [placed(after.header.axes[0], about.dims[stand.y], cell.row), placed(after.header.axes[1], about.dims[stand.x], cell.column)];
  const values = found.map((one, n) => {
    if (!one || cell.row >= one.header.shape[0] || cell.column >= one.header.shape[1]) return null;
    return `${names[n]} ${worded(one.header, one.values[cell.row * one.header.shape[1] + cell.column])}`;
  }).filter(Boolean);
  told.replaceChildren(el("b", { text: values.join(", ") }), el("span", { class: "dim", text: ` at ${place.join(", ")}` }));
  pictures.forEach((picture, n) => found[n] && picture.mark(cell));
}

function key(event) {
  const next = found[1] && stepped(event.key, pictures[1].marked || { row: 0, column: 0 }, ...found[1].header.shape, pictures[1].upward);
  if (next) {
    event.preventDefault();
    tell(next);
  } else if (event.key === "Escape") stand.set({ windows: {} });
}

function zoom(from, to) {
  const [down, across] = found[1].header.axes;
  const window = (axis, a, b) => [axis.start + Math.min(a, b) * axis.step, Math.min(axis.start + (Math.max(a, b) + 1) * axis.step, axis.stop)];
  stand.set({ windows: { [stand.y]: window(down, from.row, to.row), [stand.x]: window(across, from.column, to.column) } });
}

root.append(choices, sliders, note, el("div", { class: "thirds" }, ...stages), told);
build();
refresh();
let settle;
addEventListener("resize", () => { clearTimeout(settle); settle = setTimeout(() => pictures.forEach((each) => each.layOut()), 60); });
