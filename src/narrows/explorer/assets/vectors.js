/* How the explorer's page shows numbers and vectors: a table of named columns, or both lines. */
"use strict";
const showing = (() => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  const number = (value, digits = 4) => (value === null || value === undefined ? "–" : `${+value.toPrecision(digits)}`);
  /* Down to a decimal place, as far as a number has digits. */
  const placed = (value, place, least = 4) => {
    if (!value || !Number.isFinite(place)) return number(value, least);
    return number(value, Math.max(least, Math.min(15, Math.floor(Math.log10(Math.abs(value))) - place + 1)));
  };
  const make = (name, parent, text, attributes = {}) => {
    const node = document.createElement(name);
    if (text) node.textContent = text;
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (parent) parent.appendChild(node);
    return node;
  };

  function drawVector(facts, vector) {
    if ($("columns")) drawColumns(facts, vector);
    else drawProfile(facts, vector);
  }
  function drawColumns(facts, vector) {
    const body = $("columns");
    if (!body.children.length)
      for (const name of facts.columns) {
        const row = make("tr", body);
        make("th", row, name, { scope: "row" });
        make("td", row, "", { class: "number" });
        make("td", row, "", { class: "number" });
        const cell = make("div", make("td", row, "", { class: "place", "aria-hidden": "true" }));
        make("span", cell);
        make("i", cell);
      }
    facts.columns.forEach((_, i) => {
      const [, given, made, place] = body.children[i].children, range = facts.ranges[i];
      const x = vector.input ? vector.input[i] : null, y = vector.decoded ? vector.decoded[i] : null;
      given.textContent = placed(x, facts.places[i]);
      made.textContent = placed(y, facts.places[i]);
      const at = (value) => (range && range[1] > range[0] ? Math.max(0, Math.min(1, (value - range[0]) / (range[1] - range[0]))) : 0);
      const [bar, mark] = place.firstChild.children;
      bar.style.width = y === null ? "0" : `${100 * at(y)}%`;
      mark.hidden = x === null || !range;
      mark.style.left = `${100 * at(x ?? 0)}%`;
    });
  }
  function drawProfile(facts, vector) {
    const known = [...facts.ranges.flat(), ...(vector.decoded || []), ...(vector.input || [])].filter((v) => v !== null);
    const low = Math.min(...known), high = Math.max(...known), span = high - low || 1, svg = $("profile");
    svg.setAttribute("viewBox", "0 0 1000 100");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-label", "The input's values and the decoded ones");
    svg.replaceChildren();
    for (const [values, colour] of [[vector.input, "c6"], [vector.decoded, "c0"]]) {
      if (!values) continue;
      const line = document.createElementNS(SVG, "polyline"), last = Math.max(1, values.length - 1);
      const points = values.map((v, i) => `${(1000 * i) / last},${96 - (92 * ((v ?? low) - low)) / span}`);
      line.setAttribute("class", `line ${colour}`);
      line.setAttribute("points", points.join(" "));
      svg.appendChild(line);
    }
    const place = Math.floor(Math.log10(span)) - 2;
    $("top").textContent = placed(high, place, 3);
    $("bottom").textContent = placed(low, place, 3);
  }

  return { number, make, drawVector };
})();
