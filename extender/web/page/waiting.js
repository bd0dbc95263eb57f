// What waits, in the order of queues and positions: a page of rows at a time, and a chip for each reason.

import { age, el, number, patch, setClass, setText, table } from "./dom.js";
import { compare, progress, title } from "./state.js";

const ROWS = 25;
const COLUMNS = [
  { title: "Group" },
  { title: "Queue" },
  { title: "Place", numeric: true },
  { title: "Reason" },
  { title: "Why" },
  { title: "Members", numeric: true },
  { title: "For", numeric: true },
];

export class Waiting {
  constructor(place, state, show) {
    Object.assign(this, { state, show, only: null, page: 0 });
    this.chips = place.querySelector(".chips");
    this.body = table(place.querySelector(".scroll"), "Groups that wait", COLUMNS);
    this.empty = el("p", { class: "empty", hidden: true, text: "Nothing waits." });
    place.insertBefore(this.empty, place.querySelector(".pages"));
    this.back = el("button", { type: "button", text: "Before", onclick: () => this.turn(-1) });
    this.more = el("button", { type: "button", text: "Next", onclick: () => this.turn(1) });
    this.where = el("span", { class: "dim" });
    place.querySelector(".pages").append(this.where, this.back, this.more);
  }

  turn(by) {
    this.page += by;
    this.update();
  }

  update() {
    const all = this.state.waiting();
    this.count(all);
    const shown = this.only === null ? all : all.filter(({ row }) => row.reason === this.only);
    const pages = Math.max(1, Math.ceil(shown.length / ROWS));
    this.page = Math.max(0, Math.min(this.page, pages - 1));
    const first = this.page * ROWS;
    const rows = shown.slice(first, first + ROWS);
    patch(this.body, rows, (one) => one.key, (one) => this.make(one.key), (node, one) => this.fill(node, one));
    this.body.parentNode.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0 || !this.state.complete;
    this.back.hidden = this.more.hidden = pages === 1;
    this.back.disabled = this.page === 0;
    this.more.disabled = this.page === pages - 1;
    setText(this.where, rows.length ? `${number(first + 1)}–${number(first + rows.length)} of ${number(shown.length)}` : "");
  }

  count(all) {
    const counts = new Map();
    for (const { row } of all) counts.set(row.reason, { number: (counts.get(row.reason)?.number ?? 0) + 1, kind: row.kind });
    if (this.only !== null && !counts.has(this.only)) this.only = null;
    const sorted = [...counts].sort((a, b) => b[1].number - a[1].number || compare(a[0], b[0]));
    patch(
      this.chips,
      sorted,
      ([reason]) => reason,
      ([reason]) => el("button", { type: "button", class: "chip", onclick: () => this.choose(reason) }, el("span", { text: reason }), el("b")),
      (node, [reason, { number: count, kind }]) => {
        setText(node.lastChild, number(count));
        setClass(node, `chip ${kind}`);
        node.setAttribute("aria-pressed", String(this.only === reason));
      },
    );
  }

  choose(reason) {
    this.only = this.only === reason ? null : reason;
    this.page = 0;
    this.update();
  }

  make(key) {
    const name = el("button", { type: "button", class: "link", onclick: () => this.show({ kind: "group", key }) });
    const reason = el("span", { class: "reason" });
    const cells = ["", "number", "", "why", "number", "number"].map((kind) => el("td", { class: kind }));
    cells[2].append(reason);
    const row = el("tr", {}, el("th", { scope: "row" }, name), ...cells);
    row.parts = { name, reason, cells };
    return row;
  }

  fill(node, { row, position }) {
    const { name, reason, cells } = node.parts;
    setText(name, title(row));
    name.title = row.source;
    setText(cells[0], row.queue);
    setText(cells[1], position ?? "");
    setText(reason, row.reason);
    setClass(reason, `reason ${row.kind}`);
    setText(cells[3], row.message);
    cells[3].title = row.message;
    setText(cells[4], progress(row));
    node.since = row.since;
    this.tellAge(node);
  }

  /** Time goes on though nothing changes. */
  tick() {
    for (const row of this.body.children) this.tellAge(row);
  }

  tellAge(row) {
    setText(row.parts.cells[5], row.since === null ? "" : age(this.state.now() - row.since));
  }
}
