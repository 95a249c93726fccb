// What the views are made of. Every text becomes a text node: nothing that comes from the cluster is ever markup.

export const MAX_ROWS = 200;

/** An element. `parts`: texts, elements, null, or lists of these. Attributes are set by name; `on…` are listeners. */
export function element(tag, attributes = {}, ...parts) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...parts.flat(Infinity).filter((part) => part !== null && part !== undefined && part !== ""));
  return made;
}

/** A name from the cluster, isolated from the direction of the text around it. */
export function named(text) {
  return element("bdi", { class: "name", dir: "auto" }, String(text));
}

export function podLink(key) {
  if (!key.includes("/")) return named(key);
  return element("a", { href: podAddress(key) }, named(key));
}

export function podAddress(key, view = "pod") {
  const at = key.indexOf("/");
  return `#/${view}/${encodeURIComponent(key.slice(0, at))}/${encodeURIComponent(key.slice(at + 1))}`;
}

export function nodeLink(name) {
  return name ? element("a", { href: `#/node/${encodeURIComponent(name)}` }, named(name)) : "";
}

/** Elements with ", " in between. */
export function listed(parts, most = MAX_ROWS) {
  const shown = parts.slice(0, most).flatMap((part, at) => (at ? [", ", part] : [part]));
  if (parts.length > most) shown.push(`, and ${parts.length - most} more`);
  return shown;
}

/** A table in a region that scrolls by itself. `rows`: lists of cells, each a part or a list of parts. */
export function table(caption, heads, rows, mostRows = MAX_ROWS) {
  const body = element("tbody");
  const more = element("p", { class: "more" });
  let count = 0;
  const grow = () => {
    const next = rows.slice(count, count + mostRows);
    body.append(...next.map((cells) => element("tr", {}, cells.map((cell, at) => element("td", { "data-head": heads[at] }, element("div", {}, cell))))));
    count += next.length;
    more.replaceChildren();
    if (count < rows.length) {
      more.append(element("button", { type: "button", onclick: grow }, `Show more (${rows.length - count} left)`));
    }
  };
  grow();
  return element(
    "div",
    { class: "scrolls", role: "region", "aria-label": caption, tabindex: "0" },
    element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))), body),
    more,
  );
}

/** A bar with its value as text beside it: `share` of 0 to 1. */
export function bar(share, text) {
  const level = element("span", { class: "level" });
  level.style.inlineSize = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return element("span", { class: "bar" }, element("span", { class: "track", "aria-hidden": "true" }, level), element("span", { class: "amount" }, text));
}

/** A state by a sign and a word, never by a colour alone. */
export function state(word, kind) {
  const signs = { good: "✓", bad: "✗", waits: "…", plain: "•" };
  return element("span", { class: `state ${kind}` }, element("span", { "aria-hidden": "true" }, `${signs[kind]} `), word);
}

const UNITS = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** An amount in the unit in which people write it. */
export function amount(resource, value) {
  if (resource === "cpu") return trimmed(value / 1000);
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")) {
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < UNITS.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return trimmed(value) + UNITS[unit];
  }
  return String(value);
}

function trimmed(value) {
  return String(Number(value.toFixed(2)));
}

export function amounts(requests) {
  return Object.entries(requests).map(([resource, value]) => `${resource} ${amount(resource, value)}`).join(", ");
}

/** A time of day, with the whole time where the pointer rests. */
export function time(text) {
  return text ? element("time", { datetime: text, title: text }, text.replace(/^.*T/, "").replace(/\.\d+/, "").replace("Z", " UTC")) : "";
}

export function heading(text, ...parts) {
  return element("h2", {}, text, ...parts);
}

export function section(title, ...parts) {
  return element("section", {}, element("h3", {}, title), ...parts);
}

/** An answer as the command line prints it with --json. */
export function json(command, found) {
  return element("details", {}, element("summary", {}, "The same by the command line"), element("pre", { dir: "ltr" }, `${command} --json`), element("pre", { class: "json", dir: "ltr" }, JSON.stringify(found, null, 2)));
}

/** What could not be shown, and why. */
export function failure(error) {
  return element("p", { class: "failure", role: "alert" }, `Not shown: ${error.message}`);
}

/** What a form does: fetches and shows once more, or says why that failed. */
export function shownAgain(fetchIt, content) {
  return async (event) => {
    event.preventDefault();
    try {
      (await fetchIt())();
    } catch (error) {
      content.replaceChildren(failure(error));
    }
  };
}

export function hiddenNote(count) {
  return count ? element("p", { class: "note" }, `${count} pods of namespaces whose pods you may not see are not listed.`) : null;
}
