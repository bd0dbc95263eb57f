// What the server has told, as tables of objects by key, and what follows from it for all parts of the page.

const ON_ITS_WAY = "StartingUp";

export class State {
  constructor() {
    this.clear();
  }

  /** Forget everything: a new stream tells all again. */
  clear() {
    this.tables = { cluster: new Map(), queues: new Map(), nodes: new Map(), groups: new Map(), positions: new Map(), evictions: new Map() };
    this.columns = {};
    this.sees = { namespaces: [], queues: false, nodes: false };
    this.user = "";
    this.at = 0;
    this.complete = false;
    this.dirty = new Map();
    /** groups that came or went: their names are known now, or no more */
    this.named = new Set();
    /** groups that run and that wait, kept up with each row */
    this.running = 0;
    this.waits = 0;
  }

  hello(said) {
    this.clear();
    Object.assign(this, { columns: said.columns, user: said.user, sees: said.sees });
    for (const name of Object.keys(this.tables)) this.dirty.set(name, new Set());
  }

  rows({ table, put, gone }) {
    const rows = this.tables[table];
    if (rows === undefined) return;
    const names = this.columns[table];
    const dirty = this.touched(table);
    for (const [key, values] of put) {
      const row = {};
      for (let at = 0; at < names.length; at++) row[names[at]] = values[at];
      const before = rows.get(key);
      if (before === undefined && table === "groups") this.named.add(key);
      this.count(table, before, -1);
      rows.set(key, row);
      this.count(table, row, 1);
      dirty.add(key);
    }
    for (const key of gone) {
      if (table === "groups") this.named.add(key);
      this.count(table, rows.get(key), -1);
      rows.delete(key);
      dirty.add(key);
    }
  }

  count(table, row, by) {
    if (table !== "groups" || row === undefined) return;
    if (row.phase === "Running") this.running += by;
    if (row.reason !== "") this.waits += by;
  }

  touched(table) {
    let dirty = this.dirty.get(table);
    if (dirty === undefined) this.dirty.set(table, (dirty = new Set()));
    return dirty;
  }

  /** What changed since this was last asked: keys by table. */
  take() {
    const dirty = this.dirty;
    this.dirty = new Map();
    return dirty;
  }

  takeNamed() {
    const named = this.named;
    this.named = new Set();
    return named;
  }

  get cluster() {
    return this.tables.cluster.get("now");
  }

  group(key) {
    return this.tables.groups.get(key);
  }

  position(key) {
    return this.tables.positions.get(key)?.position ?? null;
  }

  /** Groups of which something waits, in the order of queues and positions; those on their way come last. */
  waiting() {
    const found = [];
    for (const [key, row] of this.tables.groups) {
      if (row.reason !== "") found.push({ key, row, position: this.position(key) });
    }
    const last = Number.MAX_SAFE_INTEGER;
    return found.sort(
      (a, b) =>
        compare(a.row.reason === ON_ITS_WAY, b.row.reason === ON_ITS_WAY) || compare(a.row.queue, b.row.queue) || (a.position ?? last) - (b.position ?? last) || compare(title(a.row), title(b.row)),
    );
  }

  /** Queues, each after the one above it: {name, row, depth}. */
  queueTree() {
    const below = new Map();
    for (const [name, row] of this.tables.queues) {
      const parent = this.tables.queues.has(row.parent) ? row.parent : "";
      if (!below.has(parent)) below.set(parent, []);
      below.get(parent).push(name);
    }
    const found = [];
    const walk = (parent, depth) => {
      for (const name of (below.get(parent) ?? []).sort(byName)) {
        found.push({ name, row: this.tables.queues.get(name), depth, leaf: !below.has(name) });
        walk(name, depth + 1);
      }
    };
    walk("", 0);
    return found;
  }
}

export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const collator = new Intl.Collator("en", { numeric: true });
/** As people order names: rack 2 before rack 10. */
export const byName = (a, b) => collator.compare(a, b) || compare(a, b);
/** The name of a group as people know it. */
export const title = (row) => `${row.namespace}/${row.name}`;
/** The name by which live answers know it. */
export const apiName = (row) => `${row.source}:${row.name}`;
export const isLone = (row) => row.source === "pod";
/** How many members it has that run, of how many it needs. */
export const progress = (row) => `${row.bound + row.succeeded}/${row.minimum ?? "?"}`;
