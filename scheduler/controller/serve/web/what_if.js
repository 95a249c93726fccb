// What if: a question by a form, or as the JSON that POST /debug/what-if takes. Nothing in the cluster changes.

import { page } from "./server.js";
import { element, failure, heading, listed, named, nodeLink, podLink, section, table } from "./shown.js";

const EDITS = {
  drain: "drain a node",
  cordon: "cordon a node",
  uncordon: "uncordon a node",
  removeNode: "remove a node",
  addNodes: "add nodes like one",
  removePod: "remove a pod (namespace/name)",
};

export function whatIf(main) {
  const fields = {};
  const field = (id, label, attributes = {}) => {
    fields[id] = element("input", { id: `ask-${id}`, autocomplete: "off", spellcheck: "false", maxlength: "520", ...attributes });
    return element("p", { class: "field" }, element("label", { for: `ask-${id}` }, label), fields[id]);
  };
  const edit = element("select", { id: "ask-edit" }, element("option", { value: "" }, "nothing"), Object.entries(EDITS).map(([value, text]) => element("option", { value }, text)));
  const json = element("textarea", { id: "ask-json", rows: "8", spellcheck: "false", "aria-describedby": "ask-json-hint" });
  const answer = element("div", { id: "answer", role: "region", "aria-live": "polite", "aria-label": "Answer" });
  const button = element("button", {}, "Ask");
  const ask = async (event) => {
    event.preventDefault();
    button.disabled = true;
    answer.replaceChildren(element("p", { class: "note" }, "Asked …"));
    try {
      const question = json.value.trim() ? parsed(json.value) : fromForm(fields, edit.value);
      answer.replaceChildren(...shownAnswer(await page("debug/what-if", question), question));
    } catch (error) {
      answer.replaceChildren(failure(error));
    }
    button.disabled = false;
  };
  const form = element(
    "form",
    { class: "question", onsubmit: ask },
    element("fieldset", {}, element("legend", {}, "More pods"), field("replicas", "Number", { type: "number", min: "0", max: "10000", value: "0" }), field("cpu", "CPU each", { value: "1", maxlength: "20" }), field("memory", "Memory each", { value: "1Gi", maxlength: "20" }), field("priority", "Priority", { type: "number", value: "0" })),
    element("fieldset", {}, element("legend", {}, "A change"), element("p", { class: "field" }, element("label", { for: "ask-edit" }, "What"), edit), field("target", "Node or pod"), field("count", "How many nodes", { type: "number", min: "1", max: "1000", value: "1" })),
    element("details", {}, element("summary", {}, "Or the question as JSON"), element("p", { id: "ask-json-hint" }, "As for POST /debug/what-if; it is asked in place of the form."), element("label", { for: "ask-json" }, "Question"), json),
    button,
  );
  return {
    hears: [],
    fetch: async () => () => main.replaceChildren(heading("What if"), element("p", {}, "Asked on a copy of the scheduler's state. Nothing happens in the cluster."), form, answer),
  };
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`the JSON can't be read: ${error.message}`);
  }
}

function fromForm(fields, edit) {
  const question = {};
  const replicas = Number(fields.replicas.value);
  if (replicas > 0) {
    const requests = Object.fromEntries(["cpu", "memory"].filter((name) => fields[name].value.trim()).map((name) => [name, fields[name].value.trim()]));
    const spec = { containers: [{ name: "main", image: "asked", resources: { requests } }], priority: Number(fields.priority.value) };
    question.workloads = [{
      manifest: { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "asked", namespace: "default" }, spec: { replicas, selector: { matchLabels: { app: "asked" } }, template: { metadata: { labels: { app: "asked" } }, spec } } },
    }];
  }
  const target = fields.target.value.trim();
  if (edit && !target) throw new Error("which node, or which pod? The change names none");
  if (edit === "removePod") question.edits = [{ edit, pod: target }];
  else if (edit === "addNodes") question.edits = [{ edit, like: target, count: Number(fields.count.value) }];
  else if (edit) question.edits = [{ edit, node: target }];
  if (!question.workloads && !question.edits) throw new Error("ask for some pods, or for a change");
  return question;
}

function shownAnswer(found, question) {
  const placements = found.placements ?? [];
  const refused = placements.filter((one) => one.refused?.length).flatMap((one) => one.refused.map((why) => [podLink(one.pod), named(why.plugin), listed(why.reasons.map(named)), String(why.count)]));
  return [
    element("p", { class: "verdict" }, `${found.placed} placed, ${found.pending} would wait, on ${found.nodes} nodes${found.bound ? `; stopped at its limit of ${found.bound}` : ""}`),
    found.hidden ? element("p", { class: "note" }, `Of namespaces whose pods you may not see: ${found.hidden.placed} placed, ${found.hidden.pending} would wait.`) : "",
    placements.length ? table("What becomes of the pods", ["Pod", "From", "Goes to", "Choice", "Preempts"], placements.map((one) => [
      podLink(one.pod),
      [one.origin, one.afterSeconds ? ` after ${one.afterSeconds} s` : "", one.leftNode ? [", ", nodeLink(one.leftNode)] : ""].flat(2),
      one.node ? nodeLink(one.node) : element("span", {}, "waits: ", named(one.message ?? "")),
      one.allowedCount === 1 ? (one.afterChance ? "by earlier choices" : "certain") : one.allowedCount ? `one of ${one.allowedCount}` : "",
      [listed((one.victims ?? []).map(podLink)), one.hiddenVictims ? `${one.hiddenVictims} not shown` : ""].flat(),
    ])) : "",
    refused.length ? table("Who refuses", ["Pod", "Plugin", "Why", "Nodes"], refused) : "",
    found.budgets?.length ? table("Budgets in the way", ["Budget", "Evictions wanted", "Allowed at once", "Blocked"], found.budgets.map((one) => [named(one.budget), String(one.wanted), String(one.allowed), String(one.blocked)])) : "",
    found.left?.length ? table("Pods that stay, or end for good", ["Pod", "Node", "What", "Why"], found.left.map((one) => [podLink(one.pod), nodeLink(one.node), one.stays ? "stays" : "ends", named(one.why)])) : "",
    found.notes?.length ? section("Notes", element("ul", {}, found.notes.map((note) => element("li", {}, named(note))))) : "",
    element("details", {}, element("summary", {}, "The same by the command line"), element("pre", { dir: "ltr" }, JSON.stringify(question, null, 2)), element("pre", { dir: "ltr" }, JSON.stringify(found, null, 2))),
  ].filter((part) => part !== "");
}
