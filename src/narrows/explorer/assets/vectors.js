/* How the explorer's page shows numbers and vectors: a table of named columns, or two curves. */
"use strict";
const $ = (id) => document.getElementById(id);
const number = (value, digits = 4) => (value === null || value === undefined ? "–" : `${+value.toPrecision(digits)}`);
/* Format a number down to a decimal place, with at least `least` digits. */
const placed = (value, place, least = 4) => {
  if (!value || !Number.isFinite(place)) return number(value, least);
  return number(value, Math.max(least, Math.min(15, Math.floor(Math.log10(Math.abs(value))) - place + 1)));
};
const make = (name, parent, text = "", attributes = {}) => {
  const node = document.createElement(name);
  node.textContent = text;
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  return parent.appendChild(node);
};

const drawVector = (facts, vector) => ($("columns") ? drawColumns : drawProfile)(facts, vector);
function drawColumns(facts, vector) {
  [...$("columns").children].forEach((row, i) => {
    const [, given, made, place] = row.children, range = facts.ranges[i];
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
  [vector.input || [], vector.decoded || []].forEach((values, line) => {
    const last = Math.max(1, values.length - 1);
    const points = values.map((v, i) => `${(1000 * i) / last},${96 - (92 * ((v ?? low) - low)) / span}`);
    svg.children[line].setAttribute("points", points.join(" "));
  });
  const place = Math.floor(Math.log10(span)) - 2;
  $("top").textContent = placed(high, place, 3);
  $("bottom").textContent = placed(low, place, 3);
}
