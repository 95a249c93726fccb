// What would help a pod that waits: single changes with which it fits, each tried on a copy of the scheduler's state.

import { page } from "./server.js";
import { element, heading, json, listed, named, nodeLink, podLink, section, state, table } from "./shown.js";

export function helps(main, [namespace, name]) {
  const key = `${namespace}/${name}`;
  return {
    hears: [],
    fetch: async () => {
      const found = await page("debug/what-helps", { pod: key });
      return () => main.replaceChildren(heading("What would help ", podLink(key), "?"), ...answer(found, namespace, name));
    },
  };
}

function answer(found, namespace, name) {
  const rest = json(`tandem why ${name} -n ${namespace} --what-helps`, found);
  const withGroup = found.group ? [element("p", {}, "It starts with its group ", named(found.group), ".")] : [];
  const unasked = found.unaskedExtenders ? [element("p", { class: "note" }, "Extenders have a say, and were not asked: ", listed(found.unaskedExtenders.map(named)), ".")] : [];
  if (found.fitsNow) {
    const nodes = found.fitsNow.split(", ").map(nodeLink);
    return [element("p", { class: "verdict" }, state("it fits now, on ", "good"), listed(nodes)), ...unasked, ...withGroup, rest];
  }
  const changes = found.helps ?? [];
  return [
    element("p", { class: "verdict" }, state("waits: ", "waits"), named(found.message ?? "")),
    ...unasked,
    ...withGroup,
    changes.length ? table("Changes, each of which would do", ["Would help", "Then it goes to", "Preempts"], changes.map(change)) : element("p", {}, "No single change that was tried would help."),
    found.values?.length ? section("What it wants, and what nodes have", element("ul", {}, found.values.map(wanted))) : "",
    found.hidden ? element("p", { class: "note" }, `${found.hidden} changes concern pods of namespaces whose pods you may not see.`) : "",
    found.bound ? element("p", { class: "note" }, `The search stopped after ${found.trials} trials: there may be more.`) : "",
    rest,
  ].filter((part) => part !== "");
}

function change(one) {
  return [
    named(one.text),
    one.nodes ? listed(Object.entries(one.nodes).map(used)) : [nodeLink(one.node), one.allowedCount > 1 ? `, one of ${one.allowedCount}` : ""],
    [...listed((one.victims ?? []).map(podLink)), one.hiddenVictims ? ` and ${one.hiddenVictims} not shown` : ""],
  ];
}

function used([node, count]) {
  return element("span", {}, nodeLink(node), count > 1 ? ` (${count})` : "");
}

function wanted(one) {
  const found = Object.entries(one.found).map(([value, count]) => element("span", {}, named(value || "(none)"), `: ${count}`));
  return element("li", {}, "It wants ", named(one.wanted), "; nodes have ", listed(found));
}
