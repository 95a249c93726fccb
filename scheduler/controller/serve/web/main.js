// The frame: one view at a time, chosen by the address after "#", fetched again when something has changed.

import { connect, listen, live } from "./server.js";
import { element, failure, podAddress } from "./shown.js";
import { overview } from "./overview.js";
import { decisions, queue, shadow } from "./lists.js";
import { pod } from "./pod.js";
import { node } from "./node.js";
import { capacity } from "./capacity.js";
import { helps } from "./helps.js";
import { whatIf } from "./what_if.js";

// Milliseconds: the least between two fetches of a view, and the most while nothing is heard.
const REST = 2000;
const REFRESH = 10000;

const STANDBY = "This copy does not lead: it tries no pod, knows no attempts, and each pod that waits is active here. tandem ui goes to the leader.";

const VIEWS = [
  [/^\/$/, overview, "Overview"],
  [/^\/queue$/, queue, "Queue"],
  [/^\/decisions$/, decisions, "Decisions"],
  [/^\/what-if$/, whatIf, "What if"],
  [/^\/capacity$/, capacity, "Capacity"],
  [/^\/shadow$/, shadow, "Shadow"],
  [/^\/pod\/([^/]+)\/([^/]+)$/, pod, "Pod"],
  [/^\/helps\/([^/]+)\/([^/]+)$/, helps, "What helps"],
  [/^\/node\/([^/]+)$/, node, "Node"],
];

const main = document.getElementById("view");
let shown = null;

/** A view: `show()` fetches and draws; `hears` names the events after which it is fetched again. */
class Shown {
  constructor(view, words) {
    this.view = view(main, words);
    this.isBusy = false;
    this.isStale = false;
    this.isOver = false;
    this.last = 0;
    this.timer = 0;
  }

  async refresh() {
    clearTimeout(this.timer);
    if (this.isBusy) {
      this.isStale = true;
      return;
    }
    this.isBusy = true;
    this.isStale = false;
    try {
      const draw = await this.view.fetch();
      if (!this.isOver) draw();
    } catch (error) {
      if (!this.isOver) this.view.fail ? this.view.fail(error) : main.replaceChildren(failure(error));
    }
    this.isBusy = false;
    this.last = performance.now();
    if (!this.isOver && this.view.hears.length) this.timer = setTimeout(() => this.due(), this.isStale ? REST : REFRESH);
  }

  due() {
    if (document.hidden) this.timer = setTimeout(() => this.due(), REFRESH);
    else this.refresh();
  }

  heard(what) {
    if (!this.view.hears.includes(what) || this.isOver || document.hidden) return;
    if (this.isBusy) this.isStale = true;
    else {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.due(), Math.max(REST - (performance.now() - this.last), 0));
    }
  }

  end() {
    this.isOver = true;
    clearTimeout(this.timer);
    this.view.end?.();
  }
}

function words(match) {
  try {
    return match.slice(1).map(decodeURIComponent);
  } catch {
    return null;
  }
}

function route() {
  shown?.end();
  shown = null;
  const address = location.hash.slice(1) || "/";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash.slice(1) === address) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  for (const [pattern, view, title] of VIEWS) {
    const match = pattern.exec(address);
    const found = match && words(match);
    if (found) {
      document.title = [...found.slice(-1), title, "Tandem"].join(" – ");
      main.replaceChildren(element("p", { class: "note" }, "Loading …"));
      shown = new Shown(view, found);
      shown.refresh();
      return;
    }
  }
  main.replaceChildren(failure(new Error("there is no such view")));
}

function showConnection() {
  const waiting = Object.entries(live.counts).map(([place, count]) => `${place} ${count}`).join(" · ");
  document.getElementById("live").textContent = live.isOpen ? `● live: ${waiting}` : "○ not connected, trying again";
  document.getElementById("standby").textContent = live.isLeading ? "" : STANDBY;
}

function find(event) {
  event.preventDefault();
  const key = document.getElementById("find-key").value.trim();
  if (key) location.hash = key.includes("/") ? podAddress(key) : `#/node/${encodeURIComponent(key)}`;
}

document.getElementById("find").addEventListener("submit", find);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  route();
  main.focus({ preventScroll: true });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
    event.preventDefault();
    document.getElementById("find-key").focus();
  }
});
listen((what) => {
  if (what !== "decisions") showConnection();
  shown?.heard(what);
});
route();
connect();
