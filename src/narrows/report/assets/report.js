/* The report's charts: SVG drawn from the JSON in the page. Nothing is loaded; without this script the page still reads.

   Each figure of class "chart" names, in data-chart, the element with its specification as JSON (figures/specification.py).
   Dragging zooms into a part of the x axis; a double click, Escape or 0 zooms out. On the keyboard the arrows move the
   cursor, + and - zoom. */
"use strict";
(() => {
  const MARGIN = { top: 10, right: 14, bottom: 40, left: 58 };
  const groups = {};

  const maker = (namespace) => (name, attributes, parent, text = "") => {
    const node = document.createElementNS(namespace, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    node.textContent = text;
    parent.appendChild(node);
    return node;
  };
  const draw = maker("http://www.w3.org/2000/svg"), make = maker("http://www.w3.org/1999/xhtml");

  const format = (value, axis) => {
    if (axis && axis.percent) return `${+(100 * value).toPrecision(3)}%`;
    if (Number.isInteger(value) || (axis && axis.whole)) return Math.round(value).toLocaleString("en");
    const size = Math.abs(value);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2);
    return `${+value.toPrecision(4)}`;
  };

  const ticks = (low, high, count, axis) => {
    if (axis.log) {
      const decades = Math.log10(high / low);
      if (!(decades < 700)) return []; // an end is 0 or no number
      const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 3, 5, 7];
      const found = [];
      for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p += Math.ceil(decades / 12) || 1)
        for (const s of steps) if (s * 10 ** p >= low && s * 10 ** p <= high) found.push(+(s * 10 ** p).toPrecision(6));
      return found;
    }
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    let step = [1, 2, 5, 10].find((s) => s * power >= raw) * power;
    if (axis.whole) step = Math.max(1, step);
    const first = Math.ceil(low / step - 1e-9), number = Math.floor(high / step + 1e-9) - first + 1;
    if (!(number <= 2 * count + 2)) return []; // an end is no number, or the ends differ by less than their precision
    return Array.from({ length: Math.max(0, number) }, (_, i) => +((first + i) * step).toPrecision(12));
  };

  const atOrBefore = (xs, x) => Math.max(0, xs.findLastIndex((one) => one <= x));
  const nearest = (xs, x) => {
    const before = atOrBefore(xs, x);
    return xs[before + 1] - x < x - xs[before] ? before + 1 : before;
  };

  class Chart {
    constructor(figure, spec, id) {
      Object.assign(this, { figure, spec, id });
      this.whole = [spec.x.min, spec.x.max];
      this.view = [...this.whole];
      this.peers = spec.group ? (groups[spec.group] = groups[spec.group] || []) : [];
      this.peers.push(this);
      const holder = make("div", { class: "plot" }, figure);
      this.svg = draw("svg", { role: "img", tabindex: 0, "aria-label": `${spec.about} ${HELP}` }, holder);
      this.tip = make("div", { class: "tip", role: "status", hidden: "" }, holder);
      this.button = make("button", { class: "reset", type: "button", hidden: "" }, holder, "Show all");
      this.button.addEventListener("click", () => this.zoom(this.whole));
      this.legend();
      this.listen();
      new ResizeObserver(() => this.render()).observe(holder);
      this.render();
    }

    legend() {
      const named = [...(this.spec.series || []), ...(this.spec.rules || [])].filter((one) => one.name);
      if (!named.length) return;
      const list = make("ul", { class: "legend" }, this.figure);
      for (const one of named) {
        const item = make("li", {}, list);
        const key = draw("svg", { width: 22, height: 10, "aria-hidden": "true" }, item);
        draw("line", { x1: 1, x2: 21, y1: 5, y2: 5, class: `line c${one.colour}${one.dash ? " dash" : ""}` }, key);
        item.append(one.name);
      }
    }

    zoomed() {
      return this.view[0] !== this.whole[0] || this.view[1] !== this.whole[1];
    }

    vertical() {
      const { y, series, rules } = this.spec;
      if (!this.zoomed() || y.fixed) return [y.min, y.max];
      let low = Infinity, high = -Infinity;
      const take = (value) => {
        if (value === null || (y.log && value <= 0)) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      };
      for (const one of series)
        one.x.forEach((x, i) => { if (x >= this.view[0] && x <= this.view[1]) take(one.y[i]); });
      for (const rule of rules || []) if (rule.axis === "y" && rule.at > low / 2 && rule.at < high * 2) take(rule.at);
      if (low > high) return [y.min, y.max];
      if (y.log) return [low / 1.1, high * 1.1];
      const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
      return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
    }

    render() {
      const { spec, svg } = this;
      const width = Math.max(220, svg.parentNode.clientWidth);
      const gates = spec.kind === "gates";
      const rowHeight = gates ? (spec.gates.length > 48 ? Math.max(2, 640 / spec.gates.length) : 17) : 0;
      const height = gates ? spec.gates.length * rowHeight + MARGIN.top + MARGIN.bottom : spec.height || 220;
      const left = gates ? 78 : MARGIN.left;
      Object.assign(this, { width, height, left, rowHeight });
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren();
      const inner = [left, width - MARGIN.right], down = [height - MARGIN.bottom, MARGIN.top];
      const [low, high] = this.vertical();
      const bend = spec.y.log ? Math.log : (v) => v;
      const [flat, back] = spec.x.log ? [Math.log, Math.exp] : [(v) => v, (v) => v];
      const [from, to] = this.view.map(flat);
      this.sx = (x) => inner[0] + ((flat(x) - from) / (to - from || 1)) * (inner[1] - inner[0]);
      this.ux = (px) => back(from + ((px - inner[0]) / (inner[1] - inner[0])) * (to - from));
      this.sy = (y) => down[0] + ((bend(y) - bend(low)) / (bend(high) - bend(low) || 1)) * (down[1] - down[0]);

      const clip = draw("clipPath", { id: `${this.id}-clip` }, draw("defs", {}, svg));
      draw("rect", { x: inner[0], y: down[1] - 4, width: inner[1] - inner[0], height: down[0] - down[1] + 8 }, clip);
      this.axes(inner, down, low, high);
      this.body = draw("g", { "clip-path": `url(#${this.id}-clip)` }, svg);
      if (gates) this.gates(inner);
      else if (spec.kind === "bars") this.bars(down[0]);
      else this.lines();
      for (const rule of spec.rules || []) {
        const place = rule.axis === "y" ? this.sy(rule.at) : this.sx(rule.at);
        const ends = rule.axis === "y"
          ? { x1: inner[0], x2: inner[1], y1: place, y2: place }
          : { x1: place, x2: place, y1: down[1], y2: down[0] };
        draw("line", { ...ends, class: `line c${rule.colour}${rule.dash ? " dash" : ""}` }, this.body);
      }
      this.brush = draw("rect", { class: "brush", y: down[1], height: down[0] - down[1], width: 0, x: 0 }, svg);
      this.cursor = draw("line", { class: "cursor", y1: down[1], y2: down[0], visibility: "hidden" }, svg);
      this.dots = draw("g", {}, svg);
      this.button.hidden = !this.zoomed();
      svg.dataset.from = this.view[0];
      svg.dataset.to = this.view[1];
    }

    axes(inner, down, low, high) {
      const { x, y, kind } = this.spec;
      const grid = draw("g", { class: "axis" }, this.svg);
      for (const at of ticks(...this.view, Math.max(2, (inner[1] - inner[0]) / 90), x)) {
        const place = this.sx(at);
        draw("line", { x1: place, x2: place, y1: down[1], y2: down[0], class: "grid" }, grid);
        const anchor = place > inner[1] - 18 ? "end" : "middle";
        draw("text", { x: place, y: down[0] + 16, "text-anchor": anchor }, grid, format(at, x));
      }
      draw("text", { x: (inner[0] + inner[1]) / 2, y: down[0] + 34, "text-anchor": "middle", class: "name" }, grid, x.label);
      if (kind !== "gates") {
        for (const at of ticks(low, high, Math.max(2, (down[0] - down[1]) / 42), y)) {
          const place = this.sy(at);
          draw("line", { x1: inner[0], x2: inner[1], y1: place, y2: place, class: "grid" }, grid);
          draw("text", { x: inner[0] - 7, y: place + 4, "text-anchor": "end" }, grid, format(at, y));
        }
        const name = { x: -(down[0] + down[1]) / 2, y: 13, transform: "rotate(-90)", "text-anchor": "middle", class: "name" };
        draw("text", name, grid, y.label);
      }
      draw("line", { x1: inner[0], x2: inner[1], y1: down[0], y2: down[0], class: "base" }, grid);
    }

    lines() {
      for (const one of this.spec.series) {
        let path = "", pen = false;
        one.x.forEach((x, i) => {
          if (one.y[i] === null || (this.spec.y.log && one.y[i] <= 0)) { pen = false; return; }
          const px = this.sx(x).toFixed(1), py = this.sy(one.y[i]).toFixed(1);
          path += pen ? (one.step ? `H${px}V${py}` : `L${px},${py}`) : `M${px},${py}`;
          pen = true;
        });
        draw("path", { d: path, class: `line c${one.colour}${one.dash ? " dash" : ""}${one.thin ? " thin" : ""}` }, this.body);
        if (!one.marks) continue;
        one.x.forEach((x, i) => {
          const hollow = one.hollow && one.hollow[i];
          const spot = { cx: this.sx(x), cy: this.sy(one.y[i]), r: 5, class: `mark c${one.colour}${hollow ? " hollow" : ""}` };
          const link = one.links && one.links[i] ? draw("a", { href: one.links[i], "aria-label": one.notes[i] }, this.body) : this.body;
          draw("circle", spot, link);
          if (one.labels) {
            const inward = this.sx(x) > this.width - 60;
            const place = { x: this.sx(x) + (inward ? -8 : 8), y: this.sy(one.y[i]) - 8, "text-anchor": inward ? "end" : "start" };
            draw("text", { ...place, class: "value" }, this.body, one.labels[i]);
          }
        });
      }
    }

    bars(bottom) {
      const { edges, counts, over } = this.spec;
      counts.forEach((count, i) => {
        const left = this.sx(edges[i]), right = this.sx(edges[i + 1]), top = this.sy(count);
        const beyond = edges[i] >= over * (1 - 1e-4); // numbers have five digits
        const box = { x: left + 0.5, width: Math.max(0.5, right - left - 1), y: top, height: Math.max(0, bottom - top) };
        draw("rect", { ...box, class: `bar ${beyond ? "c1" : "c0"}` }, this.body);
      });
    }

    gates(inner) {
      const stroke = Math.max(1.2, Math.min(5, this.rowHeight * 0.45));
      this.spec.gates.forEach((row, i) => {
        const y = MARGIN.top + (i + 0.5) * this.rowHeight;
        if (this.rowHeight >= 12) {
          const text = { x: inner[0] - 7, y: y + 4, "text-anchor": "end", class: row.open ? "kept" : "" };
          draw("text", text, this.svg, row.name);
        }
        for (const [from, to] of row.spans) {
          const ends = { x1: this.sx(from), x2: this.sx(to), y1: y, y2: y, "stroke-width": stroke };
          draw("line", { ...ends, class: `gate ${row.open ? "c0" : "c6"}` }, this.body);
        }
        if (this.rowHeight < 6) return;
        for (const [at, kind] of row.changes) {
          const x = this.sx(at), r = 3.6;
          if (kind === "closed") draw("path", { d: `M${x - r},${y - r}L${x + r},${y + r}M${x - r},${y + r}L${x + r},${y - r}`, class: "cross c1" }, this.body);
          else draw("circle", { cx: x, cy: y, r, class: "mark hollow c2" }, this.body);
        }
      });
    }

    show(x, py, quiet) {
      const { spec } = this;
      x = Math.min(this.view[1], Math.max(this.view[0], x));
      this.dots.replaceChildren();
      let at = x;
      const facts = [];
      if (spec.kind === "bars") {
        const i = Math.min(atOrBefore(spec.edges, x), spec.counts.length - 1);
        at = (spec.edges[i] + spec.edges[i + 1]) / 2;
        facts.push(["", `${format(spec.edges[i])} to ${format(spec.edges[i + 1])}`], ["inputs", format(spec.counts[i])]);
      } else if (spec.kind === "gates") {
        const row = spec.gates[Math.max(0, Math.min(spec.gates.length - 1, Math.floor((py - MARGIN.top) / this.rowHeight)))];
        const open = spec.gates.filter((one) => one.spans.some(([from, to]) => x >= from && x <= to));
        facts.push([spec.x.label, format(Math.round(x))], ["open gates", format(open.length)]);
        if (py !== null) {
          facts.push([row.name, open.includes(row) ? "open" : "closed"]);
          for (const [when, kind] of row.changes) facts.push([kind, format(when)]);
        }
      } else {
        const longest = spec.series.reduce((a, b) => (b.x.length > a.x.length ? b : a));
        const within = longest.x.filter((one) => one >= this.view[0] && one <= this.view[1]);
        const choice = within.length ? within : longest.x;
        at = choice[nearest(choice, x)];
        const marked = spec.series.find((one) => one.notes);
        if (!marked) facts.push([spec.x.label, format(at, spec.x)]);
        for (const one of spec.series) {
          if (at < one.x[0] || at > one.x[one.x.length - 1]) continue;
          const i = one.step ? atOrBefore(one.x, at) : nearest(one.x, at);
          if (one.y[i] === null) continue;
          facts.push(one.notes ? ["", one.notes[i]] : [one.name || spec.y.label, format(one.y[i], spec.y)]);
          const place = { cx: this.sx(at), cy: this.sy(one.y[i]), r: 3.5, class: `mark c${one.colour}` };
          if (place.cy >= MARGIN.top - 4 && place.cy <= this.height - MARGIN.bottom + 4) draw("circle", place, this.dots);
        }
      }
      this.at = at;
      const px = this.sx(at);
      this.cursor.setAttribute("x1", px);
      this.cursor.setAttribute("x2", px);
      this.cursor.setAttribute("visibility", "visible");
      this.tip.hidden = Boolean(quiet);
      if (quiet) return;
      this.tip.replaceChildren();
      for (const [name, value] of facts) {
        const line = make("div", {}, this.tip);
        if (name) make("span", {}, line, name);
        make("b", {}, line, value);
      }
      const scale = this.svg.clientWidth / this.width;
      const room = this.svg.clientWidth - this.tip.offsetWidth - 4;
      this.tip.style.left = `${Math.max(0, Math.min(room, px * scale + (px > this.width / 2 ? -this.tip.offsetWidth - 12 : 12)))}px`;
      this.tip.style.top = `${MARGIN.top}px`;
      for (const peer of this.peers) if (peer !== this && peer.spec.kind !== "gates") peer.show(at, null, true);
    }

    hide() {
      for (const chart of this.peers) {
        chart.tip.hidden = true;
        chart.cursor.setAttribute("visibility", "hidden");
        chart.dots.replaceChildren();
      }
    }

    zoom([from, to]) {
      if (to - from < (this.whole[1] - this.whole[0]) * 1e-4) return;
      for (const chart of this.peers) {
        const [low, high] = chart.whole;
        chart.view = from <= this.whole[0] && to >= this.whole[1] ? [low, high] : [Math.max(low, from), Math.min(high, to)];
        if (chart.view[0] >= chart.view[1]) chart.view = [low, high];
        chart.render();
      }
      this.hide();
    }

    listen() {
      const { svg } = this;
      const where = (event) => {
        const box = svg.getBoundingClientRect(), scale = this.width / box.width;
        return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      };
      let start = null;
      svg.addEventListener("pointerdown", (event) => {
        if (event.button !== 0 || event.target.closest("a")) return;
        start = where(event)[0];
        svg.setPointerCapture(event.pointerId);
      });
      svg.addEventListener("pointermove", (event) => {
        const [px, py] = where(event);
        if (start !== null && Math.abs(px - start) > 4) {
          const right = this.width - MARGIN.right;
          const [a, b] = [Math.max(this.left, Math.min(start, px)), Math.min(right, Math.max(start, px))];
          this.brush.setAttribute("x", a);
          this.brush.setAttribute("width", Math.max(0, b - a));
        } else this.show(this.ux(px), py);
      });
      svg.addEventListener("pointerup", (event) => {
        const [end, py] = where(event);
        if (start !== null && Math.abs(end - start) > 8) {
          this.zoom([this.ux(Math.min(start, end)), this.ux(Math.max(start, end))]);
          this.show(this.ux(end), py);
        }
        this.brush.setAttribute("width", 0);
        start = null;
      });
      svg.addEventListener("pointercancel", () => { start = null; this.brush.setAttribute("width", 0); });
      svg.addEventListener("pointerleave", () => this.hide());
      svg.addEventListener("dblclick", () => this.zoom(this.whole));
      svg.addEventListener("blur", () => this.hide());
      svg.addEventListener("keydown", (event) => {
        const [low, high] = this.view, middle = this.at ?? (low + high) / 2, span = high - low;
        const act = {
          ArrowLeft: () => this.show(this.step(-1), null),
          ArrowRight: () => this.show(this.step(1), null),
          "+": () => this.zoom([middle - span / 4, middle + span / 4]),
          "-": () => this.zoom([Math.max(this.whole[0], middle - span), Math.min(this.whole[1], middle + span)]),
          Escape: () => this.zoom(this.whole),
          0: () => this.zoom(this.whole),
        }[event.key];
        if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        act();
      });
    }

    step(sign) {
      const { spec, view } = this, now = this.at ?? view[0], span = view[1] - view[0];
      if (spec.kind === "bars") {
        const i = Math.min(atOrBefore(spec.edges, now), spec.counts.length - 1) + sign;
        return ((spec.edges[i] ?? view[0]) + (spec.edges[i + 1] ?? view[1])) / 2;
      }
      if (spec.kind === "gates") return now + (sign * span) / 100;
      const xs = spec.series.reduce((a, b) => (b.x.length > a.x.length ? b : a)).x;
      const jump = Math.max(1, Math.round(xs.filter((x) => x >= view[0] && x <= view[1]).length / 100));
      return xs[Math.max(0, Math.min(xs.length - 1, nearest(xs, now) + sign * jump))];
    }
  }

  const HELP = "Drag to zoom, double click to show all; arrow keys read values, plus and minus zoom, Escape shows all.";
  window.narrowsCharts = Array.from(document.querySelectorAll("figure.chart"), (figure) => {
    const id = figure.dataset.chart;
    return new Chart(figure, JSON.parse(document.getElementById(id).textContent), id);
  });
  document.documentElement.classList.add("drawn");
})();
