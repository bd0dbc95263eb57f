// Signs in, follows the stream, and tells each part of the page what changed, at most once a frame.

import { Charts } from "./charts.js";
import { Colours } from "./colours.js";
import { Details } from "./details.js";
import { byId, clock, setText } from "./dom.js";
import { Evictions } from "./evictions.js";
import { GpuMap } from "./map.js";
import { Queues } from "./queues.js";
import { Search } from "./search.js";
import { State } from "./state.js";
import { Refused, follow } from "./stream.js";
import { Sums } from "./sums.js";
import { Waiting } from "./waiting.js";

const ANNOUNCE_SECONDS = 15;
const THEMES = ["auto", "light", "dark"];

const state = new State();
// the server's clock, as of the newest news
let heard = { at: Date.now() / 1000, here: performance.now() };
state.now = () => heard.at + (performance.now() - heard.here) / 1000;

const access = { token: "", stop: null };
let parts = {};
let frame = 0;
let newest = 0;
let announcedAt = -Infinity;
let announced = "";

function build() {
  const colours = new Colours();
  const map = new GpuMap(byId("map"), state, colours, show);
  const details = new Details(state, access, (key) => map.choose(key), show);
  const waiting = new Waiting(byId("waiting"), state, show);
  parts = {
    sums: new Sums(byId("sums"), state),
    queues: new Queues(byId("queues"), state, show),
    map,
    waiting,
    evictions: new Evictions(byId("evictions"), state),
    charts: new Charts(byId("charts"), state, access),
    details,
    search: new Search(state, show),
  };
  setInterval(() => waiting.tick(), 1000);
  setInterval(() => parts.evictions.update(), 30000);
}

function show(what) {
  parts.details.open(what);
}

/** Which tables each part is made of; it is left alone while none of them changed. */
const MADE_OF = {
  sums: ["cluster", "groups", "evictions"],
  queues: ["queues"],
  map: ["nodes", "cluster", "groups"],
  waiting: ["groups", "positions"],
  evictions: ["evictions"],
};

function draw() {
  frame = 0;
  const dirty = state.take();
  for (const [name, tables] of Object.entries(MADE_OF)) {
    if (tables.some((table) => dirty.has(table))) parts[name].update(dirty);
  }
  parts.details.update(dirty);
  parts.charts.update();
  byId("live").dataset.state = "live";
  setText(byId("live-text"), `live, ${clock(state.at)}`);
  announce();
  measure();
}

/** From the arrival of news until they are on screen, for whoever looks at the page's timings. */
function measure() {
  const from = newest;
  const done = new MessageChannel();
  done.port1.onmessage = () => {
    performance.clearMeasures("muster-update");
    performance.measure("muster-update", { start: from });
    if (document.documentElement.dataset.shown === undefined) performance.measure("muster-first", { start: 0 });
    document.documentElement.dataset.shown = String(state.at);
  };
  // after the frame in which this is painted
  requestAnimationFrame(() => done.port2.postMessage(null));
}

function announce() {
  const text = `${state.running} groups run, ${state.waits} wait`;
  if (text === announced || state.at < announcedAt + ANNOUNCE_SECONDS) return;
  [announced, announcedAt] = [text, state.at];
  byId("announce").textContent = text;
}

function hear(name, said) {
  if (name === "hello") {
    // groups have other numbers now
    parts.details.forget();
    parts.map.clear();
    state.hello(said);
    notice();
  } else if (name === "rows") {
    state.rows(said);
  } else if (name === "at") {
    newest = performance.now();
    heard = { at: said.at, here: newest };
    state.at = said.at;
    state.complete = true;
    if (frame === 0) frame = requestAnimationFrame(draw);
  }
}

/** What the reader may not see is said, so that nobody takes an empty part for an empty cluster. */
function notice() {
  const { sees } = state;
  const place = byId("notice");
  const only = sees.namespaces;
  place.hidden = only === null;
  if (only === null) return;
  place.textContent = only.length
    ? `You see groups of ${only.join(", ")} only, as ${state.user}.`
    : `You may list no groups in all namespaces, as ${state.user}. Sign out, and name yours when you sign in again.`;
}

// --- signing in and out ---

async function open(token, namespaces) {
  access.token = token;
  access.stop = new AbortController();
  byId("signin").hidden = true;
  byId("app").hidden = false;
  const path = `api/stream${namespaces ? `?namespaces=${encodeURIComponent(namespaces)}` : ""}`;
  try {
    await follow(path, token, access.stop.signal, hear, (kind, text) => {
      byId("live").dataset.state = kind === "connecting" ? "away" : kind;
      setText(byId("live-text"), text);
    });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    close(error.message);
  }
}

function close(problem = "") {
  access.stop?.abort();
  sessionStorage.clear();
  // everything that was shown goes, with the scripts' memory of it
  if (problem) sessionStorage.setItem("muster-problem", problem);
  location.reload();
}

function signIn(event) {
  event.preventDefault();
  const token = byId("token").value.trim();
  const namespaces = byId("namespaces").value.replace(/\s+/g, "");
  byId("token").value = "";
  if (!/^[\x21-\x7e]+$/.test(token)) {
    byId("problem").textContent = "A token is one word of letters, digits and signs.";
    return;
  }
  sessionStorage.setItem("muster-token", token);
  sessionStorage.setItem("muster-namespaces", namespaces);
  open(token, namespaces);
}

// --- colours ---

function theme(name) {
  const button = byId("theme");
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[name];
  button.setAttribute("aria-label", `Colours: ${name === "auto" ? "as the system has them" : name}`);
  localStorage.setItem("muster-theme", name);
}

function begin() {
  const stored = localStorage.getItem("muster-theme");
  theme(THEMES.includes(stored) ? stored : "auto");
  byId("theme").addEventListener("click", () => {
    const now = localStorage.getItem("muster-theme");
    theme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
  });
  byId("signin").addEventListener("submit", signIn);
  byId("signout").addEventListener("click", () => close());
  build();
  const token = sessionStorage.getItem("muster-token");
  if (token) {
    open(token, sessionStorage.getItem("muster-namespaces") ?? "");
    return;
  }
  byId("problem").textContent = sessionStorage.getItem("muster-problem") ?? "";
  sessionStorage.removeItem("muster-problem");
  byId("signin").hidden = false;
  byId("token").focus();
}

begin();
