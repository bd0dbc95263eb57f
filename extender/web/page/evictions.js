// Evictions: the last hour as a strip with a lane for each rule, and all that are known as a list, the newest first.

import { age, clock, el, patch, setText, svg } from "./dom.js";
import { compare } from "./state.js";

const HOUR = 3600;
const SHOWN = 100;
const WIDTH = 600;
const LANE = 16;
const LABEL = 136;

export class Evictions {
  constructor(place, state, show) {
    Object.assign(this, { state, show });
    this.strip = place.querySelector(".strip");
    this.list = el("ol", { class: "events" });
    this.empty = el("p", { class: "empty", hidden: true, text: "Nobody was evicted." });
    place.querySelector(".scroll").append(this.list, this.empty);
  }

  update() {
    const rows = [...this.state.tables.evictions].sort((a, b) => b[1].at - a[1].at || b[0] - a[0]);
    patch(this.list, rows.slice(0, SHOWN), ([key]) => key, () => this.make(), (node, [, row]) => this.fill(node, row));
    this.empty.hidden = rows.length > 0 || !this.state.complete;
    this.draw(rows.map(([, row]) => row).filter((row) => row.at > this.state.now() - HOUR));
  }

  make() {
    const parts = {
      when: el("time"),
      rule: el("span", { class: "rule" }),
      who: el("b"),
      pods: el("span", { class: "dim" }),
      why: el("span", { class: "why" }),
    };
    const item = el("li", {}, el("div", {}, parts.when, parts.rule, parts.who, parts.pods), parts.why);
    item.parts = parts;
    return item;
  }

  fill(node, row) {
    const { when, rule, who, pods, why } = node.parts;
    setText(when, `${clock(row.at)}, ${age(this.state.now() - row.at)} ago`);
    when.dateTime = new Date(row.at * 1000).toISOString();
    setText(rule, row.rule);
    rule.dataset.rule = row.rule;
    setText(who, `${row.namespace}/${row.name}`);
    setText(pods, `${row.pods} ${row.pods === 1 ? "pod" : "pods"}, queue ${row.queue}`);
    setText(why, row.message);
  }

  draw(rows) {
    const rules = [...new Set(rows.map((row) => row.rule))].sort(compare);
    this.strip.hidden = rules.length === 0;
    if (rules.length === 0) return;
    const now = this.state.now();
    const height = LANE * rules.length + 14;
    const x = (at) => LABEL + (WIDTH - LABEL - 8) * (1 - (now - at) / HOUR);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `Evictions of the last hour: ${rows.length}` });
    rules.forEach((rule, lane) => {
      const y = LANE * lane + LANE / 2;
      picture.append(svg("text", { x: 0, y: y + 4, class: "label", text: rule }), svg("line", { x1: LABEL, x2: WIDTH - 8, y1: y, y2: y, class: "lane" }));
      for (const row of rows.filter((one) => one.rule === rule)) {
        const dot = svg("circle", { cx: x(row.at).toFixed(1), cy: y, r: Math.min(6, 3 + Math.log2(row.pods)), class: "event" });
        dot.dataset.rule = rule;
        dot.append(svg("title", { text: `${row.namespace}/${row.name}: ${row.message}` }));
        picture.append(dot);
      }
    });
    for (const minutes of [60, 45, 30, 15, 0]) {
      const text = minutes ? `−${minutes} min` : "now";
      picture.append(svg("text", { x: x(now - 60 * minutes).toFixed(1), y: height - 1, class: "label", "text-anchor": minutes === 60 ? "start" : minutes ? "middle" : "end", text }));
    }
    this.strip.replaceChildren(picture);
  }
}
