// The line of sums: GPUs as one bar, then how many groups run and wait.

import { el, number, setText } from "./dom.js";

const PARTS = [
  ["used", "allocated"],
  ["held", "held"],
  ["free", "free"],
  ["out", "out of use"],
];

export class Sums {
  constructor(place, state) {
    this.state = state;
    this.bar = el("div", { class: "gpubar", role: "img" });
    this.parts = PARTS.map(([name]) => this.bar.appendChild(el("span", { class: `seg ${name}` })));
    this.figures = Object.fromEntries(
      [...PARTS, ["gpus", "GPUs"], ["nodes", "nodes"], ["running", "groups run"], ["waiting", "wait"], ["evicted", "evicted in the last hour"]].map(
        ([name, label]) => [name, { value: el("b", { text: "–" }), label }],
      ),
    );
    const tile = (name) => el("span", { class: `figure ${name}` }, this.figures[name].value, el("span", { text: this.figures[name].label }));
    this.gpus = el("div", { class: "tile wide" }, el("div", { class: "figures" }, ...["gpus", ...PARTS.map(([name]) => name)].map(tile)), this.bar);
    place.append(this.gpus, ...["nodes", "running", "waiting", "evicted"].map((name) => el("div", { class: "tile" }, tile(name))));
  }

  update() {
    const { cluster, sees } = this.state;
    this.gpus.hidden = !sees.nodes;
    this.figures.nodes.value.closest(".tile").hidden = !sees.nodes;
    if (cluster !== undefined) {
      for (const [name] of [...PARTS, ["gpus"], ["nodes"]]) setText(this.figures[name].value, number(cluster[name]));
      const all = Math.max(1, PARTS.reduce((sum, [name]) => sum + cluster[name], 0));
      PARTS.forEach(([name], at) => this.parts[at].style.setProperty("flex-grow", String(cluster[name] / all)));
      this.bar.setAttribute("aria-label", PARTS.map(([name, label]) => `${number(cluster[name])} ${label}`).join(", "));
    }
    setText(this.figures.running.value, number(this.state.running));
    setText(this.figures.waiting.value, number(this.state.waits));
    let evicted = 0;
    for (const row of this.state.tables.evictions.values()) if (row.at > this.state.at - 3600) evicted += row.pods;
    setText(this.figures.evicted.value, number(evicted));
  }
}
