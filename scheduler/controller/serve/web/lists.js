// The queue, the decisions as they come, and the shadow's comparisons.

import { live, page } from "./server.js";
import { amount, bar, element, failure, heading, hiddenNote, listed, named, nodeLink, podLink, shownAgain, state, table, time } from "./shown.js";

const MAX_PODS = 500;

/** The pods that wait: for what, since when, and what would wake them. */
export function queue(main) {
  const namespace = element("input", { id: "queue-namespace", autocomplete: "off", spellcheck: "false", maxlength: "63" });
  const plugin = element("input", { id: "queue-plugin", autocomplete: "off", spellcheck: "false", maxlength: "253" });
  const content = element("div");
  const fetchIt = async () => {
    const query = new URLSearchParams({ limit: MAX_PODS });
    if (namespace.value) query.set("namespace", namespace.value);
    if (plugin.value) query.set("plugin", plugin.value);
    const found = await page(`debug/queue?${query}`);
    return () => {
      if (!content.isConnected) main.replaceChildren(heading("Queue"), form, content);
      content.replaceChildren(
        element("p", { class: "counts" }, Object.entries(found.counts).map(([place, count]) => element("span", {}, `${place} `, element("strong", {}, String(count))))),
        found.groups.length ? groups(found.groups) : "",
        table(`Pods that wait: ${found.pods.length} listed`, ["Pod", "Where", "Since", "Waits for", "Woken by"], found.pods.map(row)),
        hiddenNote(found.hidden) ?? "",
      );
    };
  };
  const form = element("form", { class: "filter", onsubmit: shownAgain(fetchIt, content) }, element("label", { for: "queue-namespace" }, "Namespace"), namespace, element("label", { for: "queue-plugin" }, "Plugin"), plugin, element("button", {}, "Filter"));
  return { hears: ["queue", "decisions"], fetch: fetchIt };
}

function row(one) {
  const by = one.gatedBy ? [one.gatedBy] : [...new Set([...one.rejectedBy, ...one.pendingOn])];
  const events = [...new Set((one.wokenBy ?? []).flatMap((wish) => wish.events))];
  return [
    [podLink(one.pod), one.priority ? ` priority ${one.priority}` : ""],
    [state(one.place, one.place === "active" || one.place === "in flight" ? "plain" : "waits"), one.node ? [" → ", nodeLink(one.node)] : ""].flat(),
    [time(one.pendingSince), one.attempts ? ` · ${one.attempts} tries` : ""],
    [by.length ? element("strong", {}, listed(by.map(named))) : "", one.message ? element("span", { class: "message" }, " ", named(one.message)) : ""],
    element("span", { class: "message" }, events.join("; ")),
  ];
}

function groups(found) {
  const keys = [...new Set(found.flatMap(Object.keys))].filter((key) => found.some((one) => typeof one[key] !== "object"));
  return table("Groups", keys, found.map((one) => keys.map((key) => named(one[key] ?? ""))));
}

/** Decisions, the newest first. */
export function decisions(main) {
  let paused = false;
  const content = element("div");
  const button = element("button", { type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on" : "Pause";
    if (!paused) draw();
  } }, "Pause");
  const draw = () => {
    if (!content.isConnected) main.replaceChildren(heading("Decisions"), button, content);
    if (paused) return;
    content.replaceChildren(
      table(`The newest ${live.decisions.length} decisions`, ["Time", "Pod", "Result", "Why", "Took"], live.decisions.map(decision)),
      live.leftOut ? element("p", { class: "note" }, `${live.leftOut} older ones were left out.`) : "",
      hiddenNote(live.hidden) ?? "",
    );
  };
  return { hears: ["decisions"], fetch: async () => draw };
}

function decision(one) {
  const isPlaced = one.result === "scheduled";
  const victims = one.victims ?? [];
  return [
    time(one.at),
    podLink(one.pod),
    isPlaced ? [state("to ", "good"), nodeLink(one.node)] : [state(one.result || "under way", one.result === "error" ? "bad" : "waits")],
    [
      one.nominatedNode ? ["nominated to ", nodeLink(one.nominatedNode), ". "] : "",
      victims.length ? ["preempts ", ...listed(victims.map(podLink)), ". "] : "",
      one.message ? element("span", { class: "message" }, named(one.message)) : `${one.feasibleNodes ?? 0} of ${one.nodes ?? 0} nodes were possible`,
    ].flat(),
    `${one.milliseconds ?? 0} ms`,
  ];
}

/** Our decisions beside the other scheduler's. */
export function shadow(main) {
  const none = (error) => main.replaceChildren(heading("Shadow"), element("p", { class: "note" }, "There is no comparison: the scheduler does not run with --shadow, or you may not see it."), failure(error));
  return {
    hears: ["decisions", "queue"],
    fail: none,
    fetch: async () => {
      const found = await page("debug/shadow");
      const { true: same = 0, false: other = 0, unknown = 0 } = found.agrees;
      const total = Math.max(same + other + unknown, 1);
      const rows = [...found.decisions].reverse().map((one) => [
        podLink(one.pod),
        one.agrees === "true" ? state("the same", "good") : one.agrees === "false" ? state("differs", "bad") : state("no decision seen", "waits"),
        nodeLink(one.ours),
        nodeLink(one.theirs),
      ]);
      return () => main.replaceChildren(
        heading("Shadow"),
        element("dl", { class: "facts" }, fact("The same", same, total), fact("Differs", other, total), fact("No decision seen", unknown, total)),
        table("The newest comparisons", ["Pod", "Comparison", "Tandem", "The other scheduler"], rows),
        hiddenNote(found.hidden) ?? "",
      );
    },
  };
}

function fact(name, count, total) {
  return [element("dt", {}, name), element("dd", {}, bar(count / total, `${amount("pods", count)} (${Math.round((100 * count) / total)} %)`))];
}
