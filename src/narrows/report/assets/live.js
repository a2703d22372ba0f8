/* A run that is training: the page reloads itself every data-refresh seconds. The browser keeps the scroll position, and
   this script the zoom. Nothing happens while a mouse button is down or the page is hidden. A page that is older than
   data-silence seconds says so: its run was stopped, or continues without this page.

   The final report does not contain this script, so a page that was left open ends as the report. */
"use strict";
(() => {
  const root = document.documentElement.dataset;
  const [chart] = window.narrowsCharts || [];
  const key = `narrows zoom ${location.pathname}`;
  const store = (act) => { try { return act(window.sessionStorage); } catch { return null; } };

  const kept = store((storage) => JSON.parse(storage.getItem(key)));
  if (chart && kept) chart.zoom([kept[0], kept[1] ?? chart.whole[1]]);
  const keep = () => {
    const view = chart && chart.zoomed() ? [...chart.view] : null;
    if (view && view[1] === chart.whole[1]) view[1] = null; // a view that ends at the last batch follows it to the next
    store((storage) => storage.setItem(key, JSON.stringify(view)));
  };

  let held = false;
  addEventListener("pointerdown", () => { held = true; });
  for (const name of ["pointerup", "pointercancel", "blur"]) addEventListener(name, () => { held = false; });

  const badge = document.querySelector(".badge.live"), started = Date.now();
  const tick = () => {
    const age = Date.now() / 1000 - root.written;
    if (age > root.silence) {
      badge.textContent = `No news for ${age < 120 ? `${Math.round(age)} s` : `${Math.round(age / 60)} min`}`;
      badge.className = "badge open";
      document.querySelector(".silent").hidden = false;
    }
    if (Date.now() - started < 1000 * root.refresh || held || document.hidden) return;
    keep();
    location.reload();
  };
  tick();
  setInterval(tick, 500);
})();
