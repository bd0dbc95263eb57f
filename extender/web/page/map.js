// The heat map: racks in blocks, nodes in racks, a cell for each GPU in the colour of the gang that has it.
//
// Which GPU of a node a gang has is not told: cells are given out in order, and kept while the gang has as many.

import { arrange, byId, el, number, patch, setText, table } from "./dom.js";
import { byName, title } from "./state.js";

const CELLS_MOST = 16;
const LEGEND = [["c0", "gang"], ["lone", "single pod"], ["other", "other, or not yours to see"], ["held c0", "held"], ["free", "free"], ["out", "out of use"]];
const DOMAINS = [{ title: "Domain" }, ...["Nodes", "GPUs", "Used", "Held", "Free", "Most on one node"].map((text) => ({ title: text, numeric: true }))];
// so many nodes and more are drawn smaller
const DENSE = 300;

export class GpuMap {
  constructor(place, state, colours, show) {
    Object.assign(this, { state, colours, show });
    this.scroll = place.querySelector(".scroll");
    this.under = byId("under");
    place.querySelector(".legend").append(...LEGEND.map(([kind, text]) => el("li", {}, el("i", { class: `gpu ${kind}` }), el("span", { text }))));
    this.empty = el("p", { class: "empty", hidden: true });
    place.append(this.empty);
    this.domains = byId("domains");
    this.domainRows = table(this.domains.querySelector("div"), "GPUs by domain", DOMAINS);
    this.domains.addEventListener("toggle", () => this.tell());
    this.nodes = new Map();
    this.cells = new Map();
    this.order = [];
    this.cursor = null;
    this.scroll.addEventListener("keydown", (event) => this.key(event));
    this.scroll.addEventListener("focusin", (event) => this.at(event.target.closest(".node")));
    this.scroll.addEventListener("pointerover", (event) => this.hover(event.target));
    this.scroll.addEventListener("pointerleave", () => this.hover(null));
    this.scroll.addEventListener("click", (event) => this.open(event.target.closest(".node")));
  }

  update(dirty) {
    const rows = this.state.tables.nodes;
    const nodes = dirty.get("nodes");
    const painted = new Set(nodes);
    if (nodes !== undefined || dirty.has("cluster")) {
      const before = this.nodes.size;
      let moved = nodes?.size === 0;
      for (const name of nodes ?? []) moved = this.place(name, rows.get(name)) || moved;
      if (moved || before !== this.nodes.size) this.arrange();
      this.tell();
    }
    // a group may be told, or go, at another time than the nodes that it stands on
    for (const key of this.state.takeNamed()) this.repaint(key, painted);
    const { sees, complete } = this.state;
    this.empty.hidden = this.nodes.size > 0 || !complete;
    setText(this.empty, sees.nodes ? "No node has GPUs." : "Your token may not list nodes.");
  }

  /** Forget all nodes: a new stream tells them again. */
  clear() {
    this.light(undefined);
    for (const key of this.cells.keys()) this.colours.forget(key);
    this.nodes.clear();
    this.cells.clear();
  }

  /** Take in one node's row; true when it is new, gone, or stands elsewhere. */
  place(name, row) {
    let one = this.nodes.get(name);
    if (row === undefined || row.gpus === 0) {
      if (one === undefined) return false;
      for (const cell of one.cells) this.own(cell, undefined);
      this.nodes.delete(name);
      return true;
    }
    const fresh = one === undefined;
    if (fresh) {
      one = { name, element: el("button", { type: "button", class: "node", tabindex: "-1" }), cells: [], path: "" };
      one.element.dataset.node = name;
      this.nodes.set(name, one);
    }
    const path = row.path.join("\u0000");
    const moved = fresh || one.path !== path;
    one.path = path;
    one.row = row;
    this.paint(one);
    return moved;
  }

  paint(one) {
    const { row, cells, element } = one;
    const wanted = Math.min(CELLS_MOST, Math.ceil(row.gpus));
    while (cells.length < wanted) cells.push(element.appendChild(el("i", { class: "gpu free" })));
    while (cells.length > wanted) {
      this.own(cells[cells.length - 1], undefined);
      cells.pop().remove();
    }
    this.assign(one);
    element.classList.toggle("off", row.state !== "");
    one.said = null;
    element.setAttribute("aria-label", this.words(one));
  }

  /** Give cells to who has GPUs here: first those that it had already. */
  assign({ row, cells }) {
    const left = [];
    for (const [pairs, held] of [[row.used, false], [row.held, true]]) {
      for (const [key, gpus] of pairs) left.push({ key, held, gpus });
    }
    const whole = left.every((one) => Number.isInteger(one.gpus)) && row.gpus === cells.length;
    const next = new Array(cells.length).fill(null);
    if (whole) {
      for (const [at, cell] of cells.entries()) {
        const one = cell.owner === undefined ? undefined : left.find((some) => some.key === cell.owner && some.gpus > 0);
        if (one !== undefined) {
          next[at] = { ...one, part: 1 };
          one.gpus -= 1;
        }
      }
    }
    let at = 0;
    let room = 1;
    for (const one of left) {
      while (one.gpus > 0.001) {
        while (at < cells.length && (next[at] !== null && (whole || room <= 0.001))) [at, room] = [at + 1, 1];
        if (at >= cells.length) break;
        const part = Math.min(one.gpus, room);
        // of several that share a GPU the largest part gives the colour
        if (next[at] === null || part > next[at].part) next[at] = { ...one, part, total: (next[at]?.total ?? 0) + part };
        else next[at].total += part;
        room -= part;
        one.gpus -= part;
      }
    }
    cells.forEach((cell, place) => this.dress(cell, next[place], row.state !== ""));
  }

  dress(cell, who, off) {
    this.own(cell, who === null ? undefined : who.key);
    let kind = off ? "gpu out" : "gpu free";
    if (who !== null) {
      kind = `gpu ${this.colours.name(who.key, this.state.group(who.key))}${who.held ? " held" : ""}`;
      const total = who.total ?? who.part;
      if (total < 0.995) kind += " part";
      cell.style.setProperty("--part", `${Math.round(100 * Math.min(1, total))}%`);
    }
    if (cell.kind !== kind) {
      cell.kind = kind;
      cell.className = cell.owner !== undefined && cell.owner === this.lit ? `${kind} lit` : kind;
    }
  }

  own(cell, key) {
    if (cell.owner === key) return;
    if (cell.owner !== undefined) {
      const cells = this.cells.get(cell.owner);
      cells?.delete(cell);
      if (cells?.size === 0) {
        this.cells.delete(cell.owner);
        this.colours.forget(cell.owner);
      }
    }
    cell.owner = key;
    if (key !== undefined) {
      if (!this.cells.has(key)) this.cells.set(key, new Set());
      this.cells.get(key).add(cell);
    }
  }

  repaint(key, painted) {
    for (const cell of [...(this.cells.get(key) ?? [])]) {
      const name = cell.parentNode.dataset.node;
      if (painted.has(name)) continue;
      painted.add(name);
      this.paint(this.nodes.get(name));
    }
  }

  /** Put the nodes into their domains: the narrowest level is a line, all above it are headings. */
  arrange() {
    const levels = this.state.cluster?.levels ?? [];
    this.scroll.classList.toggle("dense", this.nodes.size >= DENSE);
    const sorted = [...this.nodes.values()].sort((a, b) => byPath(a.row.path, b.row.path) || byName(a.name, b.name));
    const blocks = new Map();
    for (const one of sorted) {
      const path = one.row.path;
      const above = path.slice(0, -1).map((value) => value || "(no label)").join(" / ");
      const line = path.length ? path[path.length - 1] || "(no label)" : "";
      if (!blocks.has(above)) blocks.set(above, new Map());
      if (!blocks.get(above).has(line)) blocks.get(above).set(line, []);
      blocks.get(above).get(line).push(one);
    }
    this.order = [];
    const longest = Math.max(1, ...[...blocks.values()].flatMap((lines) => [...lines.values()].map((nodes) => nodes.length)));
    this.scroll.style.setProperty("--longest", longest);
    patch(
      this.scroll,
      [...blocks],
      ([name]) => name,
      () => this.makeBlock(),
      (node, [name, lines]) => {
        setText(node.title, name);
        node.title.hidden = name === "";
        patch(node.lines, [...lines], ([line]) => line, () => this.makeLine(levels), (made, [line, nodes]) => {
          setText(made.name, line);
          made.name.hidden = line === "";
          made.name.title = line;
          arrange(made.nodes, nodes.map((one) => one.element));
          this.order.push(nodes);
        });
      },
    );
    if (this.cursor === null || !this.nodes.has(this.cursor)) this.at(this.order[0]?.[0]?.element ?? null);
  }

  makeBlock() {
    const node = el("div", { class: "block" });
    node.title = "";
    const heading = el("h3");
    const lines = el("div", { class: "lines" });
    node.append(heading, lines);
    return Object.defineProperties(node, { title: { value: heading }, lines: { value: lines } });
  }

  makeLine() {
    const node = el("div", { class: "line" });
    const name = el("span", { class: "linename" });
    const nodes = el("div", { class: "nodes" });
    node.append(name, nodes);
    return Object.assign(node, { name, nodes });
  }

  words({ name, row }) {
    const who = (pairs, word) =>
      pairs.map(([key, gpus]) => {
        const group = this.state.group(key);
        return `${group === undefined ? "others" : title(group)} ${word} ${number(gpus)}`;
      });
    const parts = [`${name}: ${number(row.gpus)} GPUs, ${number(row.free)} free`, row.state, ...who(row.used, "has"), ...who(row.held, "is to get")];
    return parts.filter(Boolean).join("; ");
  }

  // --- moving about ---

  at(element) {
    if (element === null || element === undefined) return;
    const before = this.nodes.get(this.cursor)?.element;
    before?.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    this.cursor = element.dataset.node;
    if (document.activeElement === element) setText(this.under, this.words(this.nodes.get(this.cursor)));
  }

  key(event) {
    const line = this.order.findIndex((nodes) => nodes.some((one) => one.name === this.cursor));
    if (line < 0) return;
    const place = this.order[line].findIndex((one) => one.name === this.cursor);
    const to = {
      ArrowRight: [line, place + 1],
      ArrowLeft: [line, place - 1],
      ArrowDown: [line + 1, place],
      ArrowUp: [line - 1, place],
      Home: [line, 0],
      End: [line, this.order[line].length - 1],
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const nodes = this.order[Math.max(0, Math.min(this.order.length - 1, to[0]))];
    nodes[Math.max(0, Math.min(nodes.length - 1, to[1]))].element.focus();
  }

  hover(target) {
    const node = target?.closest?.(".node");
    setText(this.under, node ? this.words(this.nodes.get(node.dataset.node)) : "");
    const key = target?.owner;
    const group = key === undefined ? undefined : this.state.group(key);
    this.light(group === undefined ? this.chosen : key);
  }

  open(node) {
    if (node) this.show({ kind: "node", key: node.dataset.node });
  }

  /** Show where a group stands for as long as its details are open. */
  choose(key) {
    this.chosen = key;
    this.light(key);
  }

  light(key) {
    if (this.lit === key) return;
    for (const cell of this.cells.get(this.lit) ?? []) cell.classList.remove("lit");
    this.lit = key;
    const cells = this.cells.get(key);
    this.scroll.classList.toggle("lighting", cells !== undefined);
    for (const cell of cells ?? []) cell.classList.add("lit");
  }

  // --- the same in words ---

  tell() {
    if (!this.domains.open) return;
    const sums = new Map();
    for (const { row } of this.nodes.values()) {
      for (let depth = 0; depth <= row.path.length; depth++) {
        const name = row.path.slice(0, depth).map((value) => value || "(no label)").join(" / ");
        const sum = sums.get(name) ?? { name, depth, nodes: 0, gpus: 0, used: 0, held: 0, free: 0, most: 0 };
        const total = (pairs) => pairs.reduce((all, [, gpus]) => all + gpus, 0);
        sum.nodes += 1;
        sum.gpus += row.gpus;
        sum.used += total(row.used);
        sum.held += total(row.held);
        sum.free += row.free;
        sum.most = Math.max(sum.most, row.free);
        sums.set(name, sum);
      }
    }
    const rows = [...sums.values()].sort((a, b) => byName(a.name, b.name));
    patch(
      this.domainRows,
      rows,
      (sum) => sum.name,
      () => el("tr", {}, el("th", { scope: "row" }), ...DOMAINS.slice(1).map(() => el("td", { class: "number" }))),
      (node, sum) => {
        const [name, ...cells] = node.children;
        setText(name, sum.name || "cluster");
        name.style.setProperty("--depth", sum.depth);
        ["nodes", "gpus", "used", "held", "free", "most"].forEach((field, at) => setText(cells[at], number(Math.round(sum[field] * 100) / 100)));
      },
    );
  }
}

/** By the first level in which two paths differ. */
function byPath(a, b) {
  const at = a.findIndex((value, level) => value !== b[level]);
  return at < 0 ? a.length - b.length : byName(a[at], b[at] ?? "");
}
