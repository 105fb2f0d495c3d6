// Requests to this server, and the state of a page in its address.

/** A JSON answer; waits while the server says that it is still working. */
export async function ask(url, signal) {
  for (let tries = 0; ; tries++) {
    const found = await fetch(url, { signal, headers: { accept: "application/json" } });
    if (found.status === 202) {
      await new Promise((done) => setTimeout(done, Math.min(400 + tries * 300, 3000)));
      continue;
    }
    const data = await found.json();
    if (!found.ok) throw new Error(data.error || `the server answered ${found.status}`);
    return data;
  }
}

/** An address with more parameters; those that are null are left out. */
export function withParams(url, params) {
  const made = new URL(url, location.href);
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === "") made.searchParams.delete(name);
    else made.searchParams.set(name, value);
  }
  return made.pathname + made.search;
}

/** Numbers with their header, as `api/values` sends them. */
export async function askValues(url, signal) {
  const found = await fetch(url, { signal });
  if (!found.ok) {
    const told = await found.json().catch(() => ({}));
    throw new Error(told.error || `the server answered ${found.status}`);
  }
  const buffer = await found.arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const Kind = header.type === "f4" ? Float32Array : Float64Array;
  const body = buffer.slice(4 + length);
  return { header, values: header.kind === "text" ? null : new Kind(body) };
}

/** Parameters of the page's address. */
export function params() {
  return Object.fromEntries(new URLSearchParams(location.search));
}

/** Put the state of the page into its address, without a new entry in the browser's history. */
export function keep(changes) {
  history.replaceState(null, "", withParams(location.href, changes) + location.hash);
}

/** An element with attributes and children; text stays text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((each) => each !== null && each !== undefined));
  return made;
}

/** An SVG element with attributes. */
export function svg(name, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/** A number of bytes for people. */
export function size(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) { count /= 1024; unit++; }
  return unit === 0 ? `${count} B` : `${Number(count.toPrecision(3))} ${units[unit]}`;
}

/** A value for people, with as many digits as make sense. */
export function shown(value, digits = 6) {
  if (value === null || value === undefined || Number.isNaN(value)) return "missing";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  return String(Number(value.toPrecision(digits)));
}

/** A time of microseconds since 1970 for people. */
export function time(us) {
  if (!Number.isFinite(us)) return "missing";
  const date = new Date(us / 1000);
  if (Number.isNaN(date.getTime())) return `${us} µs`;
  return date.toISOString().replace("T", " ").replace(/(:00)?\.000Z$/, "").replace(/ 00:00$/, "");
}
