// One node: its room, who is on it, who is nominated to it.

import { page } from "./server.js";
import { amount, amounts, bar, element, heading, listed, named, podLink, section, state, table } from "./shown.js";

export function node(main, [name]) {
  return {
    hears: ["decisions", "queue"],
    fetch: async () => {
      const found = await page(`debug/nodes/${encodeURIComponent(name)}`);
      return () => main.replaceChildren(
        heading("Node ", named(found.node)),
        element("p", {}, found.unschedulable ? state("cordoned", "waits") : state("takes pods", "good")),
        section("Room", element("dl", { class: "facts" }, Object.entries(found.resources).filter(([, one]) => one.allocatable || one.requested).map(([resource, one]) => [
          element("dt", {}, named(resource)),
          element("dd", {}, bar(one.allocatable ? one.requested / one.allocatable : 1, `${amount(resource, one.requested)} of ${amount(resource, one.allocatable)} taken`)),
        ]))),
        section("Taints", element("p", {}, found.taints.length ? listed(found.taints.map((one) => named(`${one.key}${one.value ? `=${one.value}` : ""}:${one.effect}`))) : "none")),
        section(`Nominated (${found.nominatedCount})`, found.nominatedCount ? pods("Pods that are to come here once there is room", found.nominated) : element("p", {}, "none")),
        section(`Pods (${found.podCount})`, pods("Pods on this node, the most important first", found.pods)),
        hidden(found),
        element("details", {}, element("summary", {}, "Labels"), element("ul", {}, Object.entries(found.labels).map(([key, value]) => element("li", {}, named(`${key}=${value}`))))),
      );
    },
  };
}

function pods(caption, listedPods) {
  return table(caption, ["Pod", "Priority", "Requests", "Scheduler"], listedPods.map((one) => [
    [podLink(one.pod), one.isAssumed ? " (being bound)" : ""],
    String(one.priority),
    amounts(one.requests),
    named(one.schedulerName),
  ]));
}

function hidden(found) {
  const count = found.podCount + found.nominatedCount - found.pods.length - found.nominated.length;
  return count > 0 ? element("p", { class: "note" }, `${count} more are counted and not listed.`) : "";
}
