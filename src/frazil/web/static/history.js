// The history: rows are asked for in windows and drawn where they are looked at.
import { ask, el, svg, withParams } from "./net.js";

const ROW = 34, LANE = 16, LEFT = 16, PAGE = 100, MOST_LANES = 14, SPARE = 12;
const root = document.getElementById("history");
const sheet = root.querySelector(".sheet");
const pages = new Map();
let total = 0, width = 1, selected = 0, matches = [], drawn = new Map();

const api = (more) => withParams(root.dataset.api, { v: root.dataset.v, ...more });
const commit = (id) => withParams(root.dataset.commit, { v: id });

async function page(number) {
  if (!pages.has(number)) {
    pages.set(number, ask(api({ start: number * PAGE, count: PAGE })).catch((error) => {
      pages.delete(number);
      throw error;
    }));
  }
  return pages.get(number);
}

const x = (lane) => LEFT + Math.min(lane, MOST_LANES) * LANE;
const colour = (number) => `lane-${number % 8}`;

function drawing(row, previous) {
  const wide = LEFT + (Math.min(width, MOST_LANES) + 1) * LANE;
  const made = svg("svg", { width: wide, height: ROW, class: "lanes", "aria-hidden": "true" });
  const half = ROW / 2;
  // Each line goes from the middle of a row to the middle of the next: one half here, one there.
  for (const [from, to, shade] of previous ? previous.lines : []) {
    made.append(svg("path", { class: colour(shade), d: curve(x(from), -half, x(to), half) }));
  }
  for (const [from, to, shade] of row.lines) {
    made.append(svg("path", { class: colour(shade), d: curve(x(from), half, x(to), half + ROW) }));
  }
  const dot = row.merge
    ? svg("circle", { class: `dot merge ${colour(row.colour)}`, cx: x(row.lane), cy: half, r: 5 })
    : svg("circle", { class: `dot ${colour(row.colour)}`, cx: x(row.lane), cy: half, r: 4.5 });
  made.append(dot);
  return made;
}

function curve(x1, y1, x2, y2) {
  if (x1 === x2) return `M${x1} ${y1}V${y2}`;
  const middle = (y1 + y2) / 2;
  return `M${x1} ${y1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2}`;
}

function line(row, previous, number) {
  const when = row.time.slice(0, 16).replace("T", " ");
  const badges = row.refs.map((ref) =>
    el("a", { class: `badge ${ref.kind}`, href: withParams(root.dataset.tree, { v: ref.name }), text: ref.name, tabindex: "-1" }));
  const made = el("div", { class: "commit-row", id: `row-${number}`, role: "option", "aria-selected": number === selected ? "true" : "false" });
  made.append(
    drawing(row, previous),
    el("a", { class: "mono id", href: commit(row.id), text: row.id.slice(0, 8), tabindex: "-1" }),
    el("span", { class: "words" }, ...badges, el("span", { class: "text", text: row.message || "(no message)", title: row.message })),
    el("time", { class: "dim", datetime: row.time, text: when }),
  );
  made.style.top = `${number * ROW}px`;
  if (matches.length && !matchSet.has(number)) made.classList.add("faint");
  made.addEventListener("click", (event) => { if (event.target.tagName !== "A") select(number); });
  made.addEventListener("dblclick", () => { location.href = commit(row.id); });
  return made;
}

let matchSet = new Set(), turn = 0;

async function draw() {
  const mine = ++turn;
  const first = Math.max(0, Math.floor(root.scrollTop / ROW) - SPARE);
  const last = Math.min(total - 1, Math.ceil((root.scrollTop + root.clientHeight) / ROW) + SPARE);
  const numbers = new Set();
  for (let n = Math.floor(Math.max(first - 1, 0) / PAGE); n <= Math.floor(Math.max(last, 0) / PAGE); n++) numbers.add(n);
  const found = new Map();
  try {
    for (const number of numbers) {
      const data = await page(number);
      data.rows.forEach((row, n) => found.set(data.start + n, row));
    }
  } catch (error) {
    sheet.replaceChildren(el("p", { class: "note", text: error.message }));
    return;
  }
  if (mine !== turn) return;
  const wanted = new Map();
  for (let n = first; n <= last; n++) {
    const row = found.get(n);
    if (row) wanted.set(n, drawn.get(n) || line(row, found.get(n - 1), n));
  }
  for (const [n, element] of drawn) if (!wanted.has(n)) element.remove();
  for (const [n, element] of wanted) if (!drawn.has(n)) sheet.append(element);
  drawn = wanted;
  root.dataset.ready = "1";
}

function redraw() {
  for (const element of drawn.values()) element.remove();
  drawn = new Map();
  return draw();
}

async function select(number, follow = false) {
  selected = Math.max(0, Math.min(total - 1, number));
  const top = selected * ROW;
  if (follow && top < root.scrollTop) root.scrollTop = top;
  if (follow && top + ROW > root.scrollTop + root.clientHeight) root.scrollTop = top + ROW - root.clientHeight;
  for (const [n, element] of drawn) element.setAttribute("aria-selected", n === selected ? "true" : "false");
  root.setAttribute("aria-activedescendant", `row-${selected}`);
  const data = await page(Math.floor(selected / PAGE));
  const row = data.rows[selected - data.start];
  if (row) history.replaceState(null, "", `${location.pathname}${location.search}#${row.id}`);
  return row;
}

root.addEventListener("scroll", () => requestAnimationFrame(draw));
addEventListener("resize", draw);
root.addEventListener("keydown", async (event) => {
  const most = Math.max(1, Math.floor(root.clientHeight / ROW) - 1);
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: most, PageUp: -most, Home: -total, End: total };
  if (event.key in steps) {
    event.preventDefault();
    await select(selected + steps[event.key], true);
    draw();
  } else if (event.key === "Enter") {
    const row = await select(selected);
    if (row) location.href = commit(row.id);
  } else if (event.key === "d") {
    const row = await select(selected);
    if (row) location.href = withParams(root.dataset.diff, { b: row.id });
  }
});

document.getElementById("v").addEventListener("change", (event) => event.target.form.requestSubmit());
let waiting;
const box = document.getElementById("q");
box.form.addEventListener("submit", (event) => { if (document.activeElement === box) event.preventDefault(); });
box.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(search, 200);
});
box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !matches.length) return;
  event.preventDefault();
  const next = matches.find((n) => n > selected) ?? matches[0];
  select(next, true).then(draw);
});

async function search() {
  const word = box.value.trim();
  const data = word ? await ask(api({ q: word, start: 0, count: 1 })) : { matches: [] };
  matches = data.matches;
  matchSet = new Set(matches);
  document.getElementById("matches").textContent = word ? `${matches.length} found` : "";
  if (matches.length) await select(matches[0], true);
  redraw();
}

async function begin() {
  try {
    const wanted = location.hash.slice(1);
    const data = await ask(api({ start: 0, count: PAGE, find: wanted }));
    total = data.total;
    width = Math.min(data.width, MOST_LANES);
    pages.set(0, Promise.resolve(data));
    sheet.style.height = `${total * ROW}px`;
    if (!total) { sheet.append(el("p", { class: "dim", text: "No commits." })); return; }
    if (data.found !== null) {
      selected = data.found;
      root.scrollTop = Math.max(0, selected * ROW - root.clientHeight / 2);
    }
    await draw();
  } catch (error) {
    sheet.replaceChildren(el("p", { class: "note", text: error.message }));
  }
}
begin();
