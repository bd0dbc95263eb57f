// Use over time: what the extender knows of up to two days, asked for once a minute by who may read it, and what was
// seen since the page was opened, a sample a second, thinned as it grows.

import { clock, el, number, svg } from "./dom.js";
import { Refused, ask } from "./stream.js";

const SAMPLES = 900;
const WIDTH = 430;
const HEIGHT = 140;
const LEFT = 44;
const BOTTOM = 18;
const STACK = [["used", "allocated"], ["held", "held"], ["free", "free"], ["out", "out of use"]];
const COURSE = [["allocated", "used"], ["held", "held"], ["reserved", "reserved"], ["fragmented", "fragmented"], ["idle", "free"], ["outOfUse", "out"]];
const ASK_SECONDS = 60;
const EMPTY_SECONDS = 5;
const LINES = 6;

export class Charts {
  constructor(place, state, access) {
    this.state = state;
    this.access = access;
    this.samples = [];
    this.every = 1;
    this.askAt = -Infinity;
    this.plots = place.querySelector(".plots");
    this.places = ["GPUs over two days", "GPUs", "GPUs by queue", "Groups"].map((name) => {
      const drawing = el("div", { class: "drawing" });
      const key = el("ul", { class: "key" });
      this.plots.append(el("figure", {}, el("figcaption", { text: name }), drawing, key));
      return { name, drawing, key };
    });
    this.places[0].drawing.parentNode.hidden = true;
  }

  /** What the extender remembers; who may not read it is shown no figure. */
  async remember() {
    const now = this.state.now();
    if (now < this.askAt) return;
    this.askAt = now + ASK_SECONDS;
    const [place] = this.places;
    let course = [];
    try {
      course = (await (await ask("api/usage", this.access.token)).json()).status.course;
      if (course.length === 0) this.askAt = now + EMPTY_SECONDS;
    } catch (error) {
      // rights that change end the stream, which tells what is wrong with the connection too
      if (error instanceof Refused && error.status === 403) this.askAt = Infinity;
    }
    place.drawing.parentNode.hidden = course.length === 0;
    const samples = course.map((one) => ({ ...one, at: Date.parse(one.at) / 1000 }));
    const series = COURSE.map(([label, name]) => ({ name, label: label === "outOfUse" ? "out of use" : label, of: (one) => one[label] }));
    if (samples.length) this.draw(place, samples, series, true);
  }

  /** Note how things are; at most once in `every` seconds. */
  sample() {
    const { cluster, at, running, waits } = this.state;
    const last = this.samples[this.samples.length - 1];
    if (last !== undefined && at - last.at < this.every) return false;
    const queues = {};
    for (const { name, row, leaf } of this.state.queueTree()) if (leaf) queues[name] = row.allocated["nvidia.com/gpu"] ?? 0;
    this.samples.push({ at, cluster, queues, groups: { running, waiting: waits } });
    if (this.samples.length > SAMPLES) {
      this.samples = this.samples.filter((_, place) => place % 2 === 0);
      this.every *= 2;
    }
    return true;
  }

  update() {
    this.remember();
    if (!this.sample()) return;
    const [, gpus, queues, groups] = this.places;
    const { sees } = this.state;
    gpus.drawing.parentNode.hidden = !sees.nodes;
    queues.drawing.parentNode.hidden = !sees.queues;
    if (sees.nodes) this.draw(gpus, this.samples, STACK.map(([name, label]) => ({ name, label, of: (one) => one.cluster?.[name] ?? 0 })), true);
    if (sees.queues) this.draw(queues, this.samples, this.largest(), false);
    this.draw(groups, this.samples, [["running", "run"], ["waiting", "wait"]].map(([name, label]) => ({ name, label, of: (one) => one.groups[name] })), false);
  }

  /** The queues that use most now. */
  largest() {
    const now = this.samples[this.samples.length - 1].queues;
    const names = Object.keys(now).sort((a, b) => now[b] - now[a] || (a < b ? -1 : 1)).slice(0, LINES);
    return names.map((name, at) => ({ name: `q${at}`, label: name, of: (one) => one.queues[name] ?? 0 }));
  }

  draw({ name, drawing, key }, samples, series, stacked) {
    const from = samples[0].at;
    const to = Math.max(samples[samples.length - 1].at, from + 60);
    const sums = samples.map((one) => (stacked ? series.reduce((sum, some) => sum + some.of(one), 0) : Math.max(0, ...series.map((some) => some.of(one)))));
    const top = nice(Math.max(1, ...sums));
    const x = (at) => LEFT + ((WIDTH - LEFT - 4) * (at - from)) / (to - from);
    const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - 8) * value) / top;
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
    for (const part of [0, 0.5, 1]) {
      const at = y(top * part);
      picture.append(svg("line", { x1: LEFT, x2: WIDTH - 4, y1: at, y2: at, class: "grid" }), svg("text", { x: LEFT - 6, y: at + 4, class: "label", "text-anchor": "end", text: number(top * part) }));
    }
    picture.append(
      svg("text", { x: LEFT, y: HEIGHT - 4, class: "label", text: clock(from) }),
      svg("text", { x: WIDTH - 4, y: HEIGHT - 4, class: "label", "text-anchor": "end", text: clock(to) }),
    );
    let below = samples.map(() => 0);
    for (const one of series) {
      const values = samples.map((some, at) => one.of(some) + (stacked ? below[at] : 0));
      // steps: what was seen holds until the next is
      const upper = samples.flatMap((some, at) => step(samples, at, to).map((time) => [x(time), y(values[at])]));
      const lower = stacked ? samples.flatMap((some, at) => step(samples, at, to).map((time) => [x(time), y(below[at])])).reverse() : [];
      const points = [...upper, ...lower].map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" ");
      picture.append(svg(stacked ? "polygon" : "polyline", { points, class: stacked ? `area ${one.name}` : `curve ${one.name}` }));
      if (stacked) below = values;
    }
    const last = samples[samples.length - 1];
    const words = series.map((one) => `${one.label} ${number(one.of(last))}`);
    picture.setAttribute("aria-label", `${name}: now ${words.join(", ")}`);
    drawing.replaceChildren(picture);
    key.replaceChildren(...series.map((one, at) => el("li", {}, el("i", { class: `swatch ${one.name}` }), el("span", { text: words[at] }))));
  }
}

const step = (samples, at, to) => [samples[at].at, at + 1 < samples.length ? samples[at + 1].at : Math.min(to, samples[at].at)];

/** The next round number. */
function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((times) => times * size).find((one) => one >= value);
}
