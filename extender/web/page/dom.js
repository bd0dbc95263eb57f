// Small helpers that make elements. Text goes in as text alone: nothing here makes HTML of a string.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

/** Set text, only where it differs: writing it costs a layout. */
export function setText(node, text) {
  const said = String(text);
  if (node.textContent !== said) node.textContent = said;
}

export function setClass(node, name) {
  if (node.className !== name) node.className = name;
}

/** Make these, in this order, the children of `parent`; what stands right is not touched. */
export function arrange(parent, nodes) {
  let next = parent.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    else parent.insertBefore(node, next);
  }
  while (next !== null) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/** Make the children of `parent` those of these items in order, reusing what stands there by key. */
export function patch(parent, items, keyOf, make, update) {
  const before = parent.keyed ?? new Map();
  parent.keyed = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const node = before.get(key) ?? make(item);
    parent.keyed.set(key, node);
    update(node, item);
  }
  arrange(parent, parent.keyed.values());
}

/** A table with a head of these columns: {title, numeric}. Gives its body. */
export function table(parent, caption, columns) {
  const head = columns.map((one) => el("th", { scope: "col", class: one.numeric ? "number" : null, text: one.title }));
  const body = el("tbody");
  parent.append(el("table", {}, el("caption", { class: "unseen", text: caption }), el("thead", {}, el("tr", {}, ...head)), body));
  return body;
}

/** A duration in its two largest units, as kubectl muster tells it. */
export function age(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    parts.push([Math.floor(left / size), unit]);
    left %= size;
  }
  while (parts.length > 1 && parts[0][0] === 0) parts.shift();
  const shown = parts.slice(0, 2).filter(([number]) => number > 0);
  return (shown.length ? shown : parts.slice(0, 1)).map(([number, unit]) => `${number}${unit}`).join("");
}

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
export const number = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumFractionDigits: 2 }));

/** An amount in base units, for people. */
export function amount(resource, value) {
  if (value === undefined || value === null) return "–";
  if (resource === "cpu") return number(value / 1000);
  if (resource !== "memory" && !resource.includes("storage")) return number(value);
  let at = 0;
  while (Math.abs(value) >= 1024 && at < 5) [value, at] = [value / 1024, at + 1];
  return `${number(Math.round(value * 10) / 10)}${["", " Ki", " Mi", " Gi", " Ti", " Pi"][at]}`;
}
