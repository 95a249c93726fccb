// Capacity: what is free by pool and resource, and how many more pods fit like those that wait and those that run most.

import { page } from "./server.js";
import { amount, bar, element, heading, json, listed, named, section, shownAgain, state, table } from "./shown.js";

export function capacity(main) {
  const labels = element("input", { id: "capacity-pool", autocomplete: "off", spellcheck: "false", maxlength: "520" });
  const content = element("div", { "aria-live": "polite" });
  const fetchIt = async () => {
    const wanted = labels.value.trim();
    const found = await page(wanted ? `debug/capacity?${new URLSearchParams({ pool: wanted })}` : "debug/capacity");
    return () => {
      if (!content.isConnected) main.replaceChildren(heading("Capacity"), form, content);
      content.replaceChildren(...answer(found, wanted));
    };
  };
  const form = element("form", { class: "filter", onsubmit: shownAgain(fetchIt, content) }, element("label", { for: "capacity-pool" }, "Labels that name a pool"), labels, element("button", {}, "Count again"));
  return { hears: [], fetch: fetchIt };
}

function answer(found, wanted) {
  const shapes = new Map(found.shapes.map((shape) => [shape.name, shape]));
  const refused = found.shapes.filter((shape) => shape.message);
  return [
    element("p", {}, found.poolLabels.length ? ["Pools by ", ...listed(found.poolLabels.map(named))] : "All nodes are one pool; labels divide them."),
    ...found.pools.map((pool) => onePool(pool, shapes)),
    refused.length ? section("Taken by no node", element("ul", {}, refused.map((shape) => element("li", {}, named(shape.name), ": ", named(shape.message))))) : "",
    found.shapes.some((shape) => shape.isUpperBound) ? element("p", { class: "note" }, "≤: its pods may refuse each other; “What if” places them one by one.") : "",
    found.poolsLeftOut ? element("p", { class: "note" }, `and ${found.poolsLeftOut} more pools`) : "",
    json(`tandem capacity${wanted ? ` --pool ${wanted}` : ""}`, found),
  ].filter((part) => part !== "");
}

function onePool(pool, shapes) {
  const resources = Object.entries(pool.resources).map(([name, one]) => [
    named(name),
    bar(one.allocatable ? one.free / one.allocatable : 0, `${amount(name, one.free)} (${Math.floor((100 * one.free) / Math.max(one.allocatable, 1))} %)`),
    amount(name, one.allocatable),
    amount(name, one.largestFree),
  ]);
  return section(
    `${pool.name || "(none)"}: ${pool.nodes} nodes`,
    pool.cordoned ? element("p", {}, state(`${pool.cordoned} cordoned`, "waits")) : "",
    table(`What is free in ${pool.name || "(none)"}`, ["Resource", "Free", "Of", "Most on one node"], resources),
    pool.fits.length ? table(`How many more fit in ${pool.name || "(none)"}`, ["Pods like", "There are", "More fit", "On nodes", "Fragmented", "Runs out first", "Closed nodes"], pool.fits.map((one) => fits(one, shapes.get(one.shape)))) : "",
  );
}

function fits(one, shape) {
  return [
    named(one.shape),
    state(`${shape.pods} ${shape.isWaiting ? "waiting" : "running"}`, shape.isWaiting ? "waits" : "plain"),
    `${shape.isUpperBound ? "≤ " : ""}${one.count}`,
    String(one.nodes),
    String(one.lost),
    listed(Object.entries(one.limitedBy).map(([name, count]) => [named(name), `: ${count}`]).map((parts) => element("span", {}, parts))),
    `${one.closed}${one.outsideOfScope ? `, ${one.outsideOfScope} outside of nodeScope` : ""}`,
  ];
}
