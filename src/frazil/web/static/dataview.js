// The data of an array: a picture or a plot, and the commits that touched it.
import { ask, askValues, el, keep, withParams } from "./net.js";
import { Picture, extent, histogram, legend, linePlot, placed, stepped, worded } from "./picture.js";
import { Stand, ends } from "./controls.js";

const root = document.getElementById("view");
const about = JSON.parse(root.querySelector(".about").textContent);
const COARSE = 48;
let snapshot = about.snapshot, running = null, pinned = null, last = null, commits = [], lineAxis = null;

const stand = new Stand(about, () => refresh());
stand.rebuilt = () => build();
const picture = new Picture(`Values of ${about.path}`, {
  point: (cell) => tell(cell),
  leave: () => tell(pinned),
  pick: (cell) => pin(cell),
  zoom: (from, to) => zoom(from, to),
  reset: () => stand.set({ windows: {} }),
  key: (event) => key(event),
});
const sliders = el("div", { class: "sliders" }), choices = el("div", { class: "controls" });
const told = el("p", { class: "pointer", id: "pointer", text: " " });
const side = el("div", { class: "side" }), line = el("div", { class: "line" }), note = el("p", { class: "note", hidden: true });
const travel = el("div", { class: "travel" });
const stage = el("div", { class: "stage" });

function build() {
  sliders.replaceChildren(...stand.controls());
  choices.replaceChildren(...stand.choices());
}

function most() {
  const room = Math.max(picture.element.clientWidth, 320) * Math.min(devicePixelRatio || 1, 2);
  return Math.min(1024, Math.ceil(room));
}

async function refresh() {
  running?.abort();
  const mine = (running = new AbortController());
  root.dataset.ready = "0";
  const url = (count) => withParams(root.dataset.values, { v: snapshot, path: about.path, ...stand.query(count) });
  try {
    // Few cells first, so that something is seen at once; then as many as the screen has.
    const longest = Math.max(...stand.shown.map((axis) => about.shape[axis]), 0);
    const fine = most();
    for (const count of longest > 4 * COARSE ? [COARSE, fine] : [fine]) {
      const found = await askValues(url(count), mine.signal);
      if (mine.signal.aborted) return;
      draw(found);
      if (stand.shown.every((_, n) => found.header.axes[n].step === 1)) break;
    }
    note.hidden = !last.header.note;
    note.textContent = last.header.note;
    if (stand.shown.length === 2) drawLine(mine.signal);
    root.dataset.ready = "1";
  } catch (error) {
    if (error.name === "AbortError") return;
    note.hidden = false;
    note.textContent = error.message;
    stage.classList.add("failed");
    root.dataset.ready = "error";
  }
}

function draw(found) {
  last = found;
  stage.classList.remove("failed");
  const { header, values } = found;
  for (const [axis, text] of Object.entries(header.at)) {
    const label = stand.labels.get(Number(axis));
    if (label) label.textContent = text ? `${text} [${stand.at[axis]}]` : `${stand.at[axis]}`;
  }
  if (header.kind === "text") return drawText(header);
  if (stand.shown.length === 2) {
    const [low, high] = ends(stand, extent(values));
    if (!picture.element.isConnected) stage.replaceChildren(picture.element);
    picture.draw(header, values, stand.shown.map((axis) => about.dims[axis]), { low, high, colours: stand.colours, upward: header.axes[0].upward });
    const bars = histogram(values, low, high, stand.colours);
    side.replaceChildren(bars.element, legend(header, low, high, stand.colours, bars.missing, values.length));
    root.dataset.low = low;
    root.dataset.high = high;
    if (header.empty || !values.length) told.textContent = "This part of the array has no cells.";
  } else if (stand.shown.length === 1) {
    stage.replaceChildren(linePlot(header, values, about.dims[0], null, `Values of ${about.path}`, Math.max(280, stage.clientWidth)));
    const [low, high] = ends(stand, extent(values));
    const bars = histogram(values, low, high, stand.colours);
    side.replaceChildren(bars.element, legend(header, low, high, stand.colours, bars.missing, values.length));
    if (header.long_name) told.textContent = header.long_name;
  } else {
    stage.replaceChildren(el("p", { class: "scalar", text: worded(header, values[0], 12) }));
  }
}

function drawText(header) {
  const columns = header.shape.length === 2 ? header.shape[1] : 1;
  const rows = [];
  for (let n = 0; n < header.values.length; n += columns || 1) {
    rows.push(el("tr", {}, el("th", { text: String(rows.length) }), ...header.values.slice(n, n + columns).slice(0, 50).map((text) => el("td", { text }))));
  }
  stage.replaceChildren(el("div", { class: "scroll" }, el("table", { class: "texts" }, el("tbody", {}, ...rows.slice(0, 200)))));
  side.replaceChildren(el("p", { class: "dim", text: header.cut ? "Only the first values are shown." : "Values that are no numbers are shown as text." }));
}

function tell(cell) {
  if (!last || !cell || stand.shown.length !== 2 || last.header.kind === "text") return;
  const { header, values } = last;
  const value = values[cell.row * header.shape[1] + cell.column];
  if (value === undefined) return;
  const place = [placed(header.axes[0], about.dims[stand.y], cell.row), placed(header.axes[1], about.dims[stand.x], cell.column)];
  told.replaceChildren(el("b", { text: worded(header, value) }), el("span", { class: "dim", text: ` at ${place.join(", ")}` }));
}

function indexOf(cell) {
  const [down, across] = last.header.axes, index = [...stand.at];
  index[stand.y] = down.start + cell.row * down.step;
  index[stand.x] = across.start + cell.column * across.step;
  return index;
}

async function pin(cell) {
  pinned = cell;
  picture.mark(cell);
  const index = indexOf(cell);
  keep({ p: index.join(",") });
  tell(cell);
  drawLine();
  try {
    const found = await ask(withParams(root.dataset.value, { v: snapshot, path: about.path, index: index.join(","), raw: stand.raw ? 1 : null }));
    if (pinned === cell) told.append(el("span", { class: "dim exact", text: ` · exactly ${found.value}` }));
  } catch { /* the rounded value stands */ }
}

async function drawLine(signal) {
  if (!last || last.header.kind === "text" || stand.shown.length !== 2 || !last.values?.length) return;
  const index = pinned ? indexOf(pinned) : restored();
  if (!index) { line.replaceChildren(el("p", { class: "dim", text: "Click a cell for a line through it; drag to enlarge, double-click for all." })); return; }
  const axis = lineAxis ?? stand.hidden.find((n) => about.shape[n] > 1) ?? stand.x;
  const query = { v: snapshot, path: about.path, x: axis, most: 2048, raw: stand.raw ? 1 : null };
  index.forEach((n, other) => { if (other !== axis) query[`i${other}`] = n; });
  try {
    const found = await askValues(withParams(root.dataset.values, query), signal);
    const across = found.header.axes[0];
    const choice = el("label", {}, "Along ", el("select", { id: "line-axis", onchange: (event) => { lineAxis = Number(event.target.value); keep({ along: lineAxis }); drawLine(); } },
      ...about.dims.map((name, n) => el("option", { value: n, selected: n === axis, text: name }))));
    line.replaceChildren(el("div", { class: "controls" }, choice, el("span", { class: "dim", text: `through [${index.join(", ")}]` })),
      linePlot(found.header, found.values, about.dims[axis], Math.round((index[axis] - across.start) / across.step), "Values along a line", Math.max(280, Math.min(line.clientWidth, 1000))));
  } catch (error) {
    if (error.name !== "AbortError") line.replaceChildren(el("p", { class: "note", text: error.message }));
  }
}

/** The cell that the address names. */
function restored() {
  const given = new URLSearchParams(location.search);
  if (given.get("along") && lineAxis === null) lineAxis = Math.min(Number(given.get("along")) || 0, about.shape.length - 1);
  const parts = (given.get("p") || "").split(",").map(Number);
  if (parts.length !== about.shape.length || parts.some((n, axis) => !Number.isInteger(n) || n < 0 || n >= about.shape[axis])) return null;
  const [down, across] = last.header.axes;
  const row = Math.floor((parts[stand.y] - down.start) / down.step), column = Math.floor((parts[stand.x] - across.start) / across.step);
  if (row >= 0 && row < last.header.shape[0] && column >= 0 && column < last.header.shape[1]) {
    pinned = { row, column };
    picture.mark(pinned);
    tell(pinned);
  }
  stand.hidden.forEach((axis) => { parts[axis] = stand.at[axis]; });
  return parts;
}

function zoom(from, to) {
  const [down, across] = last.header.axes;
  const window = (axis, a, b) => [axis.start + Math.min(a, b) * axis.step, Math.min(axis.start + (Math.max(a, b) + 1) * axis.step, axis.stop)];
  pinned = null;
  picture.mark(null);
  keep({ p: null });
  stand.set({ windows: { [stand.y]: window(down, from.row, to.row), [stand.x]: window(across, from.column, to.column) } });
}

function key(event) {
  const next = last && stepped(event.key, pinned || { row: 0, column: 0 }, ...last.header.shape, picture.upward);
  if (next) {
    event.preventDefault();
    pin(next);
  } else if (event.key === "Escape") stand.set({ windows: {} });
}

document.addEventListener("keydown", (event) => {
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey) return;
  const axis = stand.hidden[0];
  if ((event.key === "[" || event.key === "]") && axis !== undefined) {
    const next = Math.max(0, Math.min(about.shape[axis] - 1, stand.at[axis] + (event.key === "]" ? 1 : -1)));
    sliders.querySelector(`[data-axis="${axis}"]`).value = next;
    stand.set({ at: { [axis]: next } });
  } else if (event.key === "," || event.key === ".") {
    const slider = travel.querySelector("input");
    if (slider) { slider.value = Number(slider.value) + (event.key === "." ? 1 : -1); slider.dispatchEvent(new Event("input")); }
  }
});

// --- time travel ---

async function loadCommits() {
  try {
    const found = await ask(withParams(root.dataset.commits, { v: about.snapshot, path: about.path }));
    commits = found.commits.slice().reverse();
    if (!commits.length) { travel.replaceChildren(el("p", { class: "dim", text: "No log tells which commits touched this array." })); return; }
    const slider = el("input", { type: "range", id: "time", min: 0, max: commits.length - 1, value: commits.length - 1, "aria-label": "Commit", disabled: commits.length < 2 });
    const label = el("span", { class: "commit" });
    const say = () => {
      const one = commits[Number(slider.value)];
      label.replaceChildren(el("span", { class: "mono", text: one.id.slice(0, 8) }), ` ${one.time.slice(0, 16).replace("T", " ")} `,
        el("span", { class: "foreign", text: one.message.split("\n")[0] || "(no message)" }), el("span", { class: "dim", text: ` ${one.what}${one.chunks ? `, ${one.chunks} chunk${one.chunks === 1 ? "" : "s"}` : ""}` }));
      const newest = Number(slider.value) === commits.length - 1;
      compare.hidden = newest;
      compare.href = withParams(root.dataset.diff, { a: one.id, b: about.snapshot, path: about.path });
    };
    const compare = el("a", { class: "button", hidden: true }, "compare with the version above");
    slider.addEventListener("input", () => {
      const newest = Number(slider.value) === commits.length - 1;
      snapshot = newest ? about.snapshot : commits[Number(slider.value)].id;
      keep({ t: newest ? null : snapshot });
      say();
      refresh();
    });
    const wanted = new URLSearchParams(location.search).get("t");
    const at = commits.findIndex((one) => one.id === wanted);
    travel.replaceChildren(el("div", { class: "slider wide" }, el("span", { class: "name", text: "commits" }), slider, el("output", { class: "where", text: `${commits.length} touched it` })),
      el("p", { class: "about" }, label, " ", compare));
    if (at >= 0) { slider.value = at; snapshot = commits[at].id; refresh(); }
    say();
    travel.dataset.ready = "1";
  } catch (error) {
    travel.replaceChildren(el("p", { class: "note", text: error.message }));
  }
}

root.append(el("section", { class: "travel-box" }, el("h2", { text: "Through time" }), travel), choices, sliders, note,
  el("div", { class: "scene" }, stage, side), told, line);
stage.append(picture.element);
build();
refresh();
loadCommits();
let settle;
addEventListener("resize", () => { clearTimeout(settle); settle = setTimeout(() => picture.layOut(), 60); });
