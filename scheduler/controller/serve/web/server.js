// The scheduler's pages: the same addresses and the same JSON that the command line reads.

// Relative to /ui/, so that it also holds behind a proxy that adds to the path.
const ROOT = new URL("..", document.baseURI);
const ANSWER_SECONDS = 15;
const MAX_DECISIONS = 500;
const RETRY_SECONDS = 5;

/** The JSON of a page. Throws Error with the server's own words. */
export async function page(path, question = undefined) {
  const options = { cache: "no-store", credentials: "same-origin", referrerPolicy: "no-referrer", signal: AbortSignal.timeout(ANSWER_SECONDS * 1000) };
  if (question !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(question);
  }
  let answer;
  try {
    answer = await fetch(new URL(path, ROOT), options);
  } catch (error) {
    throw new Error(error.name === "TimeoutError" ? `no answer within ${ANSWER_SECONDS} s` : "the scheduler can't be reached");
  }
  const text = await answer.text();
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    body = {};
  }
  if (!answer.ok) throw new Error(String(body.message || body.error || `HTTP ${answer.status}`));
  return body;
}

export function podPath(namespace, name) {
  return `debug/why/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

/** What has come in by the stream: `isLeading`, whether this copy schedules, `counts` of the queue, and the newest `decisions`, the newest first. */
export const live = { isLeading: true, counts: {}, decisions: [], leftOut: 0, hidden: 0, isOpen: false };

const listeners = new Set();

/** Calls `hear(what)` with "copy", "queue", "decisions" or "connection" until the returned function is called. */
export function listen(hear) {
  listeners.add(hear);
  return () => listeners.delete(hear);
}

function tell(what) {
  for (const hear of [...listeners]) hear(what);
}

/** Opens the stream, and opens it again whenever it ends: the server bounds how long one lasts. */
export function connect() {
  let last = "";
  const open = () => {
    const source = new EventSource(new URL(`debug/live?after=${last}`, ROOT));
    source.addEventListener("open", () => {
      live.isOpen = true;
      tell("connection");
    });
    source.addEventListener("copy", (event) => {
      live.isLeading = JSON.parse(event.data).isLeading;
      tell("copy");
    });
    source.addEventListener("queue", (event) => {
      live.counts = JSON.parse(event.data);
      tell("queue");
    });
    source.addEventListener("decisions", (event) => {
      const found = JSON.parse(event.data);
      last = event.lastEventId;
      live.decisions = [...found.decisions.reverse(), ...live.decisions].slice(0, MAX_DECISIONS);
      live.leftOut += found.leftOut;
      live.hidden += found.hidden;
      tell("decisions");
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) {
        live.isOpen = false;
        tell("connection");
        setTimeout(open, RETRY_SECONDS * 1000);
      }
    });
  };
  open();
}
