// What is known of one group, queue or node, beside the rest. A group's history is asked for when it is opened.

import { age, amount, byId, clock, el, number } from "./dom.js";
import { ask } from "./stream.js";
import { apiName, isLone, progress, title } from "./state.js";

const ASK_SECONDS = 5;

export class Details {
  constructor(state, access, choose, show) {
    Object.assign(this, { state, access, choose, show, what: null, told: null });
    this.place = byId("details");
    this.title = byId("details-title");
    this.body = this.place.querySelector(".body");
    byId("close").addEventListener("click", () => this.close());
    this.place.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  open(what) {
    this.from = document.activeElement;
    this.what = what;
    this.told = null;
    this.place.hidden = false;
    this.choose(what.kind === "group" ? what.key : undefined);
    this.draw();
    this.title.focus({ preventScroll: true });
    if (what.kind === "group") this.ask();
  }

  close() {
    this.place.hidden = true;
    this.what = null;
    this.choose(undefined);
    this.from?.focus?.();
  }

  /** A group's number is no more what it was. */
  forget() {
    if (this.what?.kind === "group") this.close();
  }

  update(dirty) {
    if (this.what === null) return;
    const table = { group: "groups", queue: "queues", node: "nodes" }[this.what.kind];
    if (!dirty.get(table)?.has(this.what.key)) return;
    if (this.what.kind === "group") this.ask();
    // what somebody is at stays as it is
    if (!this.body.contains(document.activeElement)) this.draw();
  }

  /** All there is to say of the group, at most so often. */
  async ask() {
    const { key } = this.what;
    const row = this.state.group(key);
    if (row === undefined || this.asking || (this.told !== null && this.state.now() - this.told.at < ASK_SECONDS)) return;
    this.asking = true;
    const path = `api/workloads/${encodeURIComponent(row.namespace)}/${encodeURIComponent(apiName(row))}`;
    try {
      const answer = await (await ask(path, this.access.token)).json();
      this.told = { at: this.state.now(), status: answer.status };
    } catch (error) {
      this.told = { at: this.state.now(), problem: error.message };
    } finally {
      this.asking = false;
    }
    if (this.what?.key === key) this.draw();
  }

  draw() {
    const { kind, key } = this.what;
    const made = { group: () => this.group(key), queue: () => this.queue(key), node: () => this.node(key) }[kind]();
    this.title.textContent = made.title;
    this.body.replaceChildren(...made.parts);
  }

  group(key) {
    const row = this.state.group(key) ?? this.last?.[key];
    if (row === undefined) return { title: "Gone", parts: [el("p", { text: "This group is there no more." })] };
    this.last = { [key]: row };
    const parts = [
      facts([
        ["Kind", isLone(row) ? "single pod" : `group (${row.source})`],
        ["Phase", this.state.group(key) === undefined ? "gone" : row.phase],
        ["Queue", row.queue],
        ["Place", this.state.position(key)],
        ["Members", `${row.have} there, minimum ${row.minimum ?? "?"}, ${row.planned} planned, ${progress(row)} bound`],
        ["Since", row.since === null ? null : `${clock(row.since)} (${age(this.state.now() - row.since)})`],
      ]),
    ];
    if (row.reason) parts.push(el("h3", { text: "Why it waits" }), said(row.reason, row.kind, row.message));
    if (this.told?.problem) parts.push(el("p", { class: "problem", text: this.told.problem }));
    const status = this.told?.status;
    if (status?.startsWhen?.length) {
      parts.push(el("h3", { text: "It starts when" }), el("ul", {}, ...status.startsWhen.map((one) => el("li", { text: one.message }))));
    }
    if (status?.expectedStart) parts.push(facts([["Expected start", new Date(status.expectedStart).toLocaleString()]]));
    if (status?.plannedNodes?.length) {
      parts.push(el("h3", { text: "Planned nodes" }), el("ul", {}, ...status.plannedNodes.map((one) => el("li", { text: `${one.name}: ${one.members}` }))));
    }
    if (status?.evictions?.length) {
      const items = [...status.evictions].reverse().map((one) => this.past(one.at, one.rule, one.message));
      parts.push(el("h3", { text: "Evictions of its pods" }), el("ol", { class: "history" }, ...items));
    }
    if (status?.history?.length) {
      const items = [...status.history].reverse().map((one) => this.past(one.since, one.reason, one.message));
      parts.push(el("h3", { text: "History" }), el("ol", { class: "history" }, ...items));
    }
    return { title: title(row), parts };
  }

  past(since, reason, message) {
    const at = Date.parse(since) / 1000;
    return el("li", {}, el("time", { text: `${clock(at)}, ${age(this.state.now() - at)} ago` }), said(reason, "", message));
  }

  queue(key) {
    const row = this.state.tables.queues.get(key);
    if (row === undefined) return { title: key, parts: [el("p", { text: "This queue is there no more." })] };
    const fields = ["allocated", "fair", "guarantee", "deserved", "capability", "borrowed"];
    const resources = [...new Set(fields.flatMap((field) => Object.keys(row[field])))].sort();
    const head = el("tr", {}, ...["Resource", "Used", "Fair", "Guarantee", "Deserved", "Capability", "Borrowed"].map((text, at) => el("th", { scope: "col", class: at ? "number" : null, text })));
    const rows = resources.map((name) => el("tr", {}, el("th", { scope: "row", text: name }), ...fields.map((field) => el("td", { class: "number", text: amount(name, row[field][name]) }))));
    const parts = [
      facts([["State", row.state], ["Above it", row.parent], ["Weight", row.weight], ["Priority", row.priority], ["Share of what it is owed", row.share], ["Waiting groups", row.pending]]),
      el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)),
      ...row.wrong.map((text) => el("p", { class: "problem", text })),
    ];
    const waiting = this.state.waiting().filter((one) => one.row.queue === key).slice(0, 20);
    if (waiting.length) parts.push(el("h3", { text: "First in line" }), el("ol", {}, ...waiting.map((one) => el("li", {}, this.link(one.key, one.row), said(one.row.reason, one.row.kind, "")))));
    return { title: key, parts };
  }

  node(key) {
    const row = this.state.tables.nodes.get(key);
    if (row === undefined) return { title: key, parts: [el("p", { text: "This node is there no more." })] };
    const levels = this.state.cluster?.levels ?? [];
    const parts = [facts([...levels.map((level, at) => [level, row.path[at] || "no label"]), ["State", row.state || "takes pods"], ["GPUs", `${number(row.gpus)}, ${number(row.free)} free`]])];
    for (const [field, heading] of [["used", "Who has them"], ["held", "Held for"]]) {
      if (!row[field].length) continue;
      const items = row[field].map(([group, gpus]) => {
        const found = this.state.group(group);
        return el("li", {}, found === undefined ? el("span", { text: "others" }) : this.link(group, found), el("span", { class: "dim", text: ` ${number(gpus)}` }));
      });
      parts.push(el("h3", { text: heading }), el("ul", {}, ...items));
    }
    return { title: key, parts };
  }

  link(key, row) {
    return el("button", { type: "button", class: "link", text: title(row), onclick: () => this.show({ kind: "group", key }) });
  }
}

const said = (reason, kind, message) => el("p", {}, el("span", { class: `reason ${kind}`, text: reason }), ` ${message}`);

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", {}, ...shown.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
}
