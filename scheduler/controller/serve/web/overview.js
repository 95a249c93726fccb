// The nodes as a heat map: one cell a node, filled from below as far as the resource is taken, on one canvas.

import { page } from "./server.js";
import { amount, bar, element, heading, nodeLink, table } from "./shown.js";

const GAP = 2;
const HEAD = 18;
const LEAST_CELL = 7;
const MAX_CELL = 44;
const MAX_FULLEST = 100;

export function overview(main) {
  const map = new HeatMap();
  const resource = element("select", { id: "map-resource", onchange: () => map.show({ resource: resource.value }) });
  const pool = element("select", { id: "map-pool", onchange: async () => {
    map.poolLabel = pool.value;
    (await fetchIt())();
  } });
  const summary = element("p", { class: "counts", "aria-live": "off" });
  const said = element("p", { id: "map-said", role: "status" }, "Arrow keys go from node to node, Enter shows one.");
  const more = element("details", {}, element("summary", {}, "The fullest nodes as a table"));
  map.tell = (parts) => said.replaceChildren(...parts);
  const options = (select, values, chosen) => {
    const same = [...select.options].map((one) => one.value).join("\n") === values.join("\n");
    if (!same) select.replaceChildren(...values.map((value) => element("option", { value }, value || "(none)")));
    select.value = chosen;
  };
  const legend = element(
    "p",
    { class: "legend" },
    element("span", { class: "swatch low", "aria-hidden": "true" }),
    "filled from below: the share that is taken; ",
    "╱ cordoned; dot: a pod is nominated there; bold frame: more is taken than there is",
  );
  const frame = [
    heading("Nodes"),
    element("form", { class: "filter", onsubmit: (event) => event.preventDefault() }, element("label", { for: "map-resource" }, "Resource"), resource, element("label", { for: "map-pool" }, "Pools by label"), pool),
    summary,
    map.canvas,
    said,
    legend,
    more,
  ];
  const fetchIt = async () => {
    const query = map.poolLabel === null ? "" : `?pool=${encodeURIComponent(map.poolLabel)}`;
    const found = await page(`debug/nodes${query}`);
    return () => {
      if (!map.canvas.isConnected) main.replaceChildren(...frame);
      const chosen = found.resources.includes(map.resource) ? map.resource : found.resources[0];
      options(resource, found.resources, chosen);
      options(pool, [...new Set(["", found.poolLabel, ...found.labelKeys])].sort(), found.poolLabel);
      map.show({ page: found, resource: chosen });
      summary.replaceChildren(...totals(found));
      more.replaceChildren(more.firstChild, fullest(found, chosen));
    };
  };
  const resized = new ResizeObserver(() => map.show({}));
  resized.observe(map.canvas);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => map.show({});
  scheme.addEventListener("change", redraw);
  return {
    hears: ["decisions", "queue"],
    fetch: fetchIt,
    end: () => {
      resized.disconnect();
      scheme.removeEventListener("change", redraw);
    },
  };
}

function totals(found) {
  const parts = [element("span", {}, "nodes ", element("strong", {}, String(found.count)))];
  found.resources.forEach((name, at) => {
    let offered = 0;
    let taken = 0;
    for (const one of found.nodes) {
      offered += one.allocatable[at];
      taken += one.requested[at];
    }
    if (offered) parts.push(element("span", {}, `${name} `, bar(taken / offered, `${amount(name, taken)} of ${amount(name, offered)}`)));
  });
  return parts;
}

function share(one, at) {
  return one.allocatable[at] ? one.requested[at] / one.allocatable[at] : one.requested[at] ? 2 : 0;
}

function fullest(found, resource) {
  const at = found.resources.indexOf(resource);
  const nodes = [...found.nodes].sort((one, other) => share(other, at) - share(one, at)).slice(0, MAX_FULLEST);
  return table(`The ${nodes.length} nodes with the most ${resource} taken`, ["Node", "Pool", "Taken", "Pods", "State"], nodes.map((one) => [
    nodeLink(one.node),
    element("bdi", {}, one.pool),
    bar(share(one, at), `${amount(resource, one.requested[at])} of ${amount(resource, one.allocatable[at])}`),
    String(one.requested[found.resources.indexOf("pods")]),
    [one.unschedulable ? "cordoned " : "", one.taints ? `${one.taints} taints ` : "", one.nominated ? `${one.nominated} nominated` : ""].join(""),
  ]));
}

class HeatMap {
  constructor() {
    this.resource = "cpu";
    this.poolLabel = null;
    this.page = null;
    this.cells = [];
    this.chosen = "";
    this.width = 0;
    this.tell = () => {};
    this.canvas = element("canvas", {
      id: "map",
      tabindex: "0",
      role: "application",
      "aria-label": "Heat map of the nodes",
      "aria-describedby": "map-said",
      onclick: (event) => this.open(this.at(event)),
      onpointermove: (event) => this.point(this.at(event)),
      onkeydown: (event) => this.key(event),
    });
  }

  show({ page: found, resource }) {
    if (found) this.page = found;
    if (resource) this.resource = resource;
    if (!this.page || !this.canvas.isConnected) return;
    this.place();
    this.draw();
  }

  /** Gives each node its cell: pools one below the other, cells as large as the window allows. */
  place() {
    const frame = this.canvas.parentElement;
    const padding = getComputedStyle(frame);
    const width = Math.max(frame.clientWidth - parseFloat(padding.paddingLeft) - parseFloat(padding.paddingRight), 100);
    const pools = new Map();
    for (const one of this.page.nodes) {
      if (!pools.has(one.pool)) pools.set(one.pool, []);
      pools.get(one.pool).push(one);
    }
    const room = Math.max(innerHeight - 330, 160);
    const hasHeads = pools.size > 1 || (pools.size === 1 && !pools.has(""));
    const height = (cell) => {
      const across = Math.max(Math.floor(width / (cell + GAP)), 1);
      let sum = 0;
      for (const nodes of pools.values()) sum += (hasHeads ? HEAD : 0) + Math.ceil(nodes.length / across) * (cell + GAP) + GAP;
      return sum;
    };
    let cell = MAX_CELL;
    while (cell > LEAST_CELL && height(cell) > room) cell -= 1;
    this.cell = cell;
    this.across = Math.max(Math.floor(width / (cell + GAP)), 1);
    this.heads = [];
    this.cells = [];
    let top = 0;
    for (const [name, nodes] of pools) {
      if (hasHeads) {
        this.heads.push({ text: `${name || "(no pool)"}: ${nodes.length}`, top });
        top += HEAD;
      }
      nodes.forEach((one, number) => {
        this.cells.push({ one, x: (number % this.across) * (cell + GAP), y: top + Math.floor(number / this.across) * (cell + GAP) });
      });
      top += Math.ceil(nodes.length / this.across) * (cell + GAP) + GAP;
    }
    this.size(width, top);
  }

  size(width, height) {
    // A canvas has a largest size; a finer one than the screen shows nothing more.
    const scale = Math.min(devicePixelRatio || 1, 2, 16000 / Math.max(width, height));
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.inlineSize = `${width}px`;
      this.canvas.style.blockSize = `${height}px`;
    }
    this.scale = scale;
  }

  draw() {
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const colours = ["--heat-1", "--heat-2", "--heat-3", "--heat-4", "--heat-5"].map(colour);
    const [empty, text, sign, accent] = [colour("--cell"), colour("--text"), colour("--sign"), colour("--accent")];
    const pen = this.canvas.getContext("2d");
    const at = this.page.resources.indexOf(this.resource);
    const size = this.cell;
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.fillStyle = text;
    pen.font = "12px system-ui, sans-serif";
    for (const head of this.heads) pen.fillText(head.text, 0, head.top + 13);
    for (const { one, x, y } of this.cells) {
      const taken = share(one, at);
      pen.fillStyle = empty;
      pen.fillRect(x, y, size, size);
      const level = Math.round(size * Math.min(taken, 1));
      if (taken > 0) {
        pen.fillStyle = colours[Math.min(Math.floor(taken * 5), 4)];
        pen.fillRect(x, y + size - Math.max(level, 1), size, Math.max(level, 1));
      }
      pen.strokeStyle = pen.fillStyle = sign;
      pen.lineWidth = 1.5;
      if (one.unschedulable) {
        pen.beginPath();
        pen.moveTo(x, y + size);
        pen.lineTo(x + size, y);
        pen.stroke();
      }
      if (one.nominated) {
        pen.beginPath();
        pen.arc(x + size / 2, y + size / 2, Math.max(size / 6, 1.5), 0, 7);
        pen.fill();
      }
      if (taken > 1) {
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, size - 2, size - 2);
      }
      if (one.node === this.chosen) {
        pen.strokeStyle = accent;
        pen.lineWidth = 3;
        pen.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
      }
    }
  }

  at(event) {
    const found = this.cells.find(({ x, y }) => event.offsetX >= x && event.offsetX < x + this.cell + GAP && event.offsetY >= y && event.offsetY < y + this.cell + GAP);
    return found?.one;
  }

  point(one) {
    if (!one || one.node === this.chosen) return;
    this.chosen = one.node;
    const at = this.page.resources.indexOf(this.resource);
    const facts = [
      `: ${Math.round(100 * share(one, at))} % of ${this.resource} taken, ${amount(this.resource, one.requested[at])} of ${amount(this.resource, one.allocatable[at])}`,
      `, ${one.requested[this.page.resources.indexOf("pods")]} pods`,
      one.nominated ? `, ${one.nominated} nominated` : "",
      one.unschedulable ? ", cordoned" : "",
      one.taints ? `, ${one.taints} taints` : "",
    ].join("");
    this.tell([nodeLink(one.node), facts]);
    this.draw();
  }

  open(one) {
    if (one) location.hash = `#/node/${encodeURIComponent(one.node)}`;
  }

  key(event) {
    const now = this.cells.findIndex(({ one }) => one.node === this.chosen);
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across, Home: -this.cells.length, End: this.cells.length };
    if (event.key in steps && this.cells.length) {
      event.preventDefault();
      const next = now < 0 ? 0 : Math.min(Math.max(now + steps[event.key], 0), this.cells.length - 1);
      this.point(this.cells[next].one);
      const top = this.canvas.getBoundingClientRect().top + this.cells[next].y;
      if (top < 0 || top + this.cell > innerHeight) scrollBy(0, top - innerHeight / 2);
    } else if (event.key === "Enter" && now >= 0) {
      this.open(this.cells[now].one);
    }
  }
}
