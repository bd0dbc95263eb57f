// The queue tree as a table of one resource, with a bar for each queue: what it uses of what it owns, and what it borrows.

import { amount, byId, el, patch, setClass, setText, table } from "./dom.js";

const COLUMNS = [
  { title: "Queue" },
  { title: "Use" },
  ...["Used", "Fair", "Guarantee", "Deserved", "Capability", "Borrowed", "Waiting"].map((title) => ({ title, numeric: true })),
  { title: "State" },
];
const FIELDS = ["allocated", "fair", "guarantee", "deserved", "capability", "borrowed"];
const FIRST = "nvidia.com/gpu";

export class Queues {
  constructor(place, state, show) {
    this.state = state;
    this.show = show;
    this.body = table(place.querySelector(".scroll"), "Queues", COLUMNS);
    this.empty = el("p", { class: "empty", hidden: true });
    place.append(this.empty);
    this.select = byId("resource");
    this.select.addEventListener("change", () => this.update());
  }

  update() {
    const { tables, sees } = this.state;
    this.body.parentNode.hidden = !sees.queues;
    this.empty.hidden = sees.queues;
    setText(this.empty, "Your token may not list queues: they show all namespaces, so that needs a ClusterRoleBinding.");
    this.offer(tables.queues);
    const resource = this.select.value || FIRST;
    const tree = this.state.queueTree();
    const scale = Math.max(1, ...tree.map(({ row }) => Math.max(...["allocated", "deserved", "guarantee", "capability", "fair"].map((name) => row[name][resource] ?? 0))));
    patch(this.body, tree, (one) => one.name, () => this.make(), (node, one) => this.fill(node, one, resource, scale));
  }

  offer(queues) {
    const names = new Set();
    for (const row of queues.values()) for (const field of FIELDS) for (const name of Object.keys(row[field])) names.add(name);
    names.delete("pods");
    const sorted = [...names].sort((a, b) => (b === FIRST) - (a === FIRST) || (a < b ? -1 : 1));
    const before = this.select.value;
    patch(this.select, sorted, (name) => name, (name) => el("option", { value: name, text: name }), () => {});
    if (sorted.includes(before)) this.select.value = before;
    this.select.hidden = sorted.length < 2;
  }

  make() {
    const name = el("button", { type: "button", class: "link", onclick: (event) => this.show({ kind: "queue", key: event.currentTarget.textContent }) });
    const parts = ["kept", "own", "over", "mark deserved", "mark capability"].map((kind) => el("span", { class: kind }));
    const bar = el("div", { class: "use", role: "img" }, ...parts);
    const cells = COLUMNS.slice(2).map((one) => el("td", { class: one.numeric ? "number" : "state" }));
    const row = el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "usecell" }, bar), ...cells);
    row.parts = { name, bar, parts, cells };
    return row;
  }

  fill(node, { name, row, depth, leaf }, resource, scale) {
    const { name: button, bar, parts, cells } = node.parts;
    setText(button, name);
    setClass(node, leaf ? "" : "parent");
    button.style.setProperty("--depth", depth);
    const of = Object.fromEntries(FIELDS.map((field) => [field, row[field][resource]]));
    const used = of.allocated ?? 0;
    const kept = Math.min(used, of.guarantee ?? 0);
    const over = of.borrowed ?? 0;
    const percent = (value) => `${Math.min(100, (100 * value) / scale)}%`;
    [kept, used - kept - over, over].forEach((value, at) => parts[at].style.setProperty("width", percent(Math.max(0, value))));
    for (const [at, field] of [[3, "deserved"], [4, "capability"]]) {
      parts[at].hidden = of[field] === undefined;
      parts[at].style.setProperty("left", percent(of[field] ?? 0));
    }
    bar.setAttribute("aria-label", `uses ${amount(resource, used)}${over ? `, ${amount(resource, over)} of it borrowed` : ""}`);
    FIELDS.forEach((field, at) => setText(cells[at], amount(resource, field === "allocated" || field === "borrowed" ? (of[field] ?? 0) : of[field])));
    setText(cells[6], row.pending);
    const wrong = row.wrong.length > 0;
    setText(cells[7], wrong ? row.wrong.join("; ") : row.state);
    setClass(cells[7], wrong ? "state bad" : "state");
    cells[7].title = wrong ? row.wrong.join("\n") : "";
  }
}
