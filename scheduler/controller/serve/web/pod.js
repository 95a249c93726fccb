// One pod's story: when what happened, which plugin refused it where, how the nodes scored, which pods it would preempt.

import { page, podPath } from "./server.js";
import { bar, element, heading, listed, named, nodeLink, podAddress, podLink, section, state, table, time } from "./shown.js";

export function pod(main, [namespace, name]) {
  return {
    hears: ["decisions", "queue"],
    fetch: async () => {
      const found = await page(podPath(namespace, name));
      const story = found.preview ?? found.attempt ?? {};
      return () => main.replaceChildren(
        heading("Pod ", named(found.pod ?? `${namespace}/${name}`)),
        element("p", { class: "verdict" }, verdict(found)),
        leaving(found),
        found.queue && !found.node && !found.queue.node ? element("p", {}, element("a", { href: podAddress(found.pod ?? `${namespace}/${name}`, "helps") }, "What would help?")) : "",
        timeline(found),
        found.attempt?.message ? section("What the last attempt said", element("p", { class: "message" }, named(found.attempt.message))) : "",
        funnel(story),
        scores(found),
        found.preview?.message ? section("If it were tried now", element("p", { class: "message" }, named(found.preview.message))) : "",
        preemption("Preemption", found.attempt?.preemption),
        preemption("The attempt that made room", found.madeRoom?.preemption ?? found.madeRoom),
        findings(found.findings),
        wishes(found.queue),
        element("details", {}, element("summary", {}, "All of it as JSON"), element("pre", { dir: "ltr" }, JSON.stringify(found, null, 2))),
      );
    },
  };
}

function verdict(found) {
  if (found.node) return [state("runs on ", "good"), nodeLink(found.node)];
  // Its node is written as the nominated one while it waits before its bind.
  if (found.queue?.node) return [state("is being bound to ", "good"), nodeLink(found.queue.node)];
  if (found.nominatedNode) return [state("waits for room on ", "waits"), nodeLink(found.nominatedNode)];
  if (found.queue) return [state(`waits: ${found.queue.place}`, "waits"), found.preview ? (found.preview.fits ? ", and would fit now" : ", and would not fit now") : "", found.preview?.unaskedExtenders ? [", without asking ", listed(found.preview.unaskedExtenders.map(named))] : ""].flat();
  return state("not in the queue", "plain");
}

/** That the pod is being deleted, and which of its victims are still there. */
function leaving(found) {
  const until = (one) => `being deleted, with time until ${one.deletedAt}${one.finalizers.length ? `, kept by ${one.finalizers.join(", ")}` : ""}`;
  const there = (found.victimsLeft ?? []).slice(0, 10);
  return element("div", {},
    found.leaving ? element("p", { class: "note" }, `It is ${until(found.leaving)}${found.node ? "" : "; it gets no node any more"}.`) : "",
    there.map((one) => element("p", { class: "note" }, "Still there: ", podLink(one.pod), one.deletedAt ? `, ${until(one)}` : ", not deleted yet")),
  );
}

function timeline(found) {
  const events = [];
  const { attempt, queue, madeRoom, decidedEarlier } = found;
  if (queue) events.push([queue.since, `in the queue as ${queue.place}`]);
  if (madeRoom) events.push([madeRoom.at, `attempt ${madeRoom.number} made room by preemption`]);
  if (attempt) {
    const waited = attempt.queuedSeconds ? `, after ${attempt.queuedSeconds.toFixed(1)} s in the queue` : "";
    events.push([attempt.at, `attempt ${attempt.number}: ${attempt.result || "under way"}${waited}`]);
  }
  if (decidedEarlier?.scheduledAt) events.push([decidedEarlier.scheduledAt, "got its node, before this scheduler started"]);
  for (const wait of queue?.bindingWaits ?? []) {
    const what = `${wait.point} of ${wait.plugin}${wait.doing ? `, ${wait.doing}` : ""}`;
    if (wait.until) events.push([wait.until, `the binding fails if ${what} is not done`]);
  }
  if (queue?.backsOffUntil) events.push([queue.backsOffUntil, "the back-off ends"]);
  if (queue?.nextTry) events.push([queue.nextTry, "is tried again, if nothing wakes it earlier"]);
  if (!events.length) return "";
  events.sort((one, other) => (one[0] < other[0] ? -1 : 1));
  const took = Object.entries(attempt?.microseconds ?? {});
  const most = Math.max(...took.map(([, value]) => value), 1);
  return section(
    "Timeline",
    element("ol", { class: "timeline" }, events.map(([at, text]) => element("li", {}, time(at), " ", text))),
    took.length ? element("dl", { class: "facts" }, took.map(([point, value]) => [element("dt", {}, point), element("dd", {}, bar(value / most, `${(value / 1000).toFixed(2)} ms`))])) : "",
  );
}

/** From all nodes to those that are left, plugin by plugin. */
function funnel(story) {
  if (!story.refusals?.length && !story.refusal) return "";
  const refusals = story.refusals?.length ? story.refusals : [{ ...story.refusal, wholePod: true }];
  const total = story.nodes || 1;
  return section(
    "Who refuses it",
    element("p", {}, `${total} nodes. A node may be refused by several plugins.`),
    table("Refusals, plugin by plugin", ["Plugin", "Nodes", "Why", "For instance"], refusals.map((one) => [
      named(one.plugin),
      one.wholePod ? "the pod as a whole" : bar(one.count / total, `${one.count} of ${total}${one.only ? `, ${one.only} of them refused by it alone` : ""}`),
      [listed(one.reasons.map(named)), details(one)].flat(),
      listed((one.nodes ?? []).map(nodeLink), 5),
    ])),
  );
}

function details(one) {
  const lines = (one.details ?? []).flatMap((detail) => detail.lines.map((line) => element("li", {}, named(line))));
  return lines.length ? element("ul", { class: "details" }, lines.slice(0, 20)) : "";
}

/** The best nodes, each plugin's part of the total as a bar. */
function scores(found) {
  const entries = found.attempt?.scores?.length > 1 || !found.alternatives ? found.attempt?.scores : found.alternatives.best;
  const previewed = (found.preview?.listed ?? []).filter((one) => one.scores);
  const chosen = (entries?.length ? entries : previewed).slice(0, 10);
  if (!chosen.length) return "";
  const plugins = [...new Set(chosen.flatMap((one) => Object.keys(one.scores)))];
  const most = Math.max(...chosen.flatMap((one) => plugins.map((plugin) => one.scores[plugin] ?? 0)), 1);
  const note = entries === found.alternatives?.best ? "As the nodes are now, as if the pod had not been placed yet." : "As it was decided.";
  return section("Scores", element("p", {}, note), table("The best nodes, with the weighted score of each plugin", ["Node", "Total", ...plugins], chosen.map((one) => [
    nodeLink(one.node),
    element("strong", {}, String(one.total)),
    ...plugins.map((plugin) => bar((one.scores[plugin] ?? 0) / most, String(one.scores[plugin] ?? "–"))),
  ])));
}

function preemption(title, found) {
  if (!found || !("eligible" in found)) return "";
  const victims = (ones) => (ones.length ? listed(ones.map((one) => [podLink(one.pod), ` (priority ${one.priority})`]).map((parts) => element("span", {}, parts))) : "none");
  return section(
    title,
    element("p", {}, found.nominatedNode ? ["Nominated to ", nodeLink(found.nominatedNode), found.criterion ? `, chosen by: ${found.criterion}` : ""].flat() : named(found.message || "no node was nominated")),
    found.victims?.length ? element("p", {}, "Victims: ", victims(found.victims)) : "",
    found.candidates?.length ? table(`${found.candidates.length} of ${found.candidateCount} candidates`, ["Node", "Victims", "Budgets violated"], found.candidates.map((one) => [nodeLink(one.node), victims(one.victims), String(one.violatedBudgets)])) : "",
    found.refusals?.length ? table("Where preemption would not help", ["Why", "Nodes"], found.refusals.map((one) => [listed(one.reasons.map(named)), String(one.count)])) : "",
  );
}

function findings(found) {
  if (!found?.length) return "";
  return section("What the plugins add", element("ul", {}, found.flatMap((one) => one.lines.map((line) => element("li", {}, named(one.plugin), ": ", named(line))))));
}

function wishes(queued) {
  if (!queued?.wokenBy?.length) return "";
  return section("What would wake it", table("Events, by the plugin that waits for them", ["Plugin", "Events"], queued.wokenBy.map((one) => [named(one.plugin), one.events.join("; ")])));
}
