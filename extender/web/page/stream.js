// Reads the stream of changes. The token goes in a header, which EventSource cannot send; so this reads the body itself.

const FIRST_DELAY = 500;
const LONGEST_DELAY = 10000;
// no beat for so long: the connection is dead
const SILENT = 20000;

/** The server said no: `status` is why. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, token, signal) {
  const answer = await fetch(path, {
    headers: { Authorization: `Bearer ${token}` },
    signal,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  });
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, String(said.error ?? `the server answered ${answer.status}`));
  }
  return answer;
}

/** Give each event to `hear(name, data)` until the stream ends. */
async function read(answer, hear, alive) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [first, second] = event.split("\n");
      hear(first.slice("event: ".length), JSON.parse(second.slice("data: ".length)));
    }
  }
}

/**
 * Follow the stream for as long as the reader is welcome, connecting anew when it ends.
 * `hear` gets each event; `state` gets "connecting", "live" or "away" with a text. Throws Refused at once when the
 * token is no good or may see nothing.
 */
export async function follow(path, token, signal, hear, state) {
  let delay = FIRST_DELAY;
  while (!signal.aborted) {
    state("connecting", "connecting");
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal.addEventListener("abort", stop, { once: true });
    let timer = setTimeout(stop, SILENT);
    let why = "the connection ended";
    try {
      const answer = await ask(path, token, attempt.signal);
      await read(
        answer,
        (name, data) => {
          if (name === "again") why = data.message || why;
          else hear(name, data);
        },
        () => {
          delay = FIRST_DELAY;
          clearTimeout(timer);
          timer = setTimeout(stop, SILENT);
        },
      );
    } catch (error) {
      if (error instanceof Refused && [400, 401, 403].includes(error.status)) throw error;
      why = error instanceof Refused ? error.message : "the server cannot be reached";
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
    if (signal.aborted) return;
    state("away", why);
    await new Promise((resolve) => setTimeout(resolve, delay * (0.75 + Math.random() / 2)));
    delay = Math.min(2 * delay, LONGEST_DELAY);
  }
}
