// Finds groups, queues and nodes by a part of their names.

import { byId, el } from "./dom.js";
import { compare, title } from "./state.js";

const SHOWN = 12;

export class Search {
  constructor(state, show) {
    Object.assign(this, { state, show, hits: [], at: -1 });
    this.input = byId("search");
    this.list = byId("hits");
    this.input.addEventListener("input", () => this.find());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) {
        event.preventDefault();
        this.input.focus();
      }
    });
  }

  find() {
    const words = this.input.value.trim().toLowerCase();
    this.hits = words === "" ? [] : this.matches(words);
    this.at = this.hits.length ? 0 : -1;
    this.draw(words);
  }

  /** Those that begin with it first, then by name. */
  matches(words) {
    const found = [];
    const look = (kind, key, name) => {
      const place = name.toLowerCase().indexOf(words);
      if (place >= 0) found.push({ kind, key, name, place });
    };
    for (const name of this.state.tables.queues.keys()) look("queue", name, name);
    for (const name of this.state.tables.nodes.keys()) look("node", name, name);
    for (const [key, row] of this.state.tables.groups) look("group", key, title(row));
    return found.sort((a, b) => a.place - b.place || compare(a.name.length, b.name.length) || compare(a.name, b.name)).slice(0, SHOWN);
  }

  draw(words) {
    const none = words !== "" && this.hits.length === 0;
    const items = this.hits.map((hit, at) =>
      el(
        "li",
        { role: "option", id: `hit-${at}`, "aria-selected": String(at === this.at), onpointerdown: (event) => this.take(event, hit) },
        el("span", { class: "dim", text: hit.kind }),
        el("span", { text: hit.name }),
      ),
    );
    this.list.replaceChildren(...items, ...(none ? [el("li", { class: "empty", text: "Nothing has this in its name." })] : []));
    this.list.hidden = words === "";
    this.input.setAttribute("aria-expanded", String(words !== ""));
    if (this.at >= 0) this.input.setAttribute("aria-activedescendant", `hit-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && this.hits.length) {
      event.preventDefault();
      this.at = (this.at + step + this.hits.length) % this.hits.length;
      this.draw(this.input.value);
    } else if (event.key === "Enter" && this.at >= 0) {
      this.take(event, this.hits[this.at]);
    } else if (event.key === "Escape") {
      this.input.value = "";
      this.close();
    }
  }

  take(event, hit) {
    event.preventDefault();
    this.close();
    this.show({ kind: hit.kind, key: hit.key });
  }

  close() {
    this.hits = [];
    this.at = -1;
    this.draw("");
  }
}
