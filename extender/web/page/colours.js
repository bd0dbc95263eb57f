// A colour for each gang that has GPUs: the least used of a few, kept while it has any.

export const COLOURS = 14;

export class Colours {
  constructor() {
    this.of = new Map();
    this.used = new Array(COLOURS).fill(0);
    this.next = 0;
  }

  /** The class of a group's GPUs. */
  name(key, row) {
    if (row === undefined) return "other";
    if (row.source === "pod") return "lone";
    return `c${this.pick(key)}`;
  }

  pick(key) {
    let colour = this.of.get(key);
    if (colour === undefined) {
      const least = Math.min(...this.used);
      colour = this.next;
      while (this.used[colour] !== least) colour = (colour + 1) % COLOURS;
      this.next = (colour + 1) % COLOURS;
      this.used[colour] += 1;
      this.of.set(key, colour);
    }
    return colour;
  }

  forget(key) {
    const colour = this.of.get(key);
    if (colour === undefined) return;
    this.used[colour] -= 1;
    this.of.delete(key);
  }
}
