/* The explorer's page: sliders to codes, codes to pictures.

   Every request is a POST to this page's own address (handlers.py). While one decoding is under way, the newest position
   of the sliders waits and older ones are dropped, so that dragging never lags behind. */
(() => {
  const facts = JSON.parse($("facts").textContent);
  const state = { model: 0, about: facts.first, code: [], off: new Set(), input: null, home: null, other: null, far: null };

  const say = (text) => {
    $("message").textContent = text;
    $("message").hidden = !text;
  };
  const complain = (error) => {
    if (error instanceof Outdated) return;
    if (!error.gone) return say(error.message);
    const key = ["input", "other"].find((one) => state[one] === error.gone);
    if (!key) return; // the reader knows, or chose another meanwhile
    forget(key);
    const which = key === "input" ? "first" : "second";
    say(`The ${which} input is gone: only the ${facts.kept} uploads used last are kept. Choose another.`);
  };

  async function post(name, body, type) {
    let answer;
    try {
      const response = await fetch(name, { method: "POST", headers: { "Content-Type": type }, body });
      answer = await response.json();
    } catch {
      throw new Error("There is no answer. Is `narrows explore` still running?");
    }
    if (answer.error && typeof answer.error === "string") throw Object.assign(new Error(answer.error), { gone: answer.gone });
    return answer;
  }
  class Outdated extends Error {}
  const ask = async (name, question) => {
    const { model } = state;
    const answer = await post(name, JSON.stringify({ model, off: [...state.off], ...question }), "application/json");
    if (state.model !== model) throw new Outdated(); // the model was changed meanwhile
    return answer;
  };

  /* Run one at a time; of those that wait, only the newest runs. */
  const latest = (work) => {
    let busy = false, waiting = null;
    return async (...words) => {
      waiting = words;
      if (busy) return;
      busy = true;
      while (waiting) {
        const now = waiting;
        waiting = null;
        await work(...now).catch(complain);
      }
      busy = false;
    };
  };

  function picture(image, source, about) {
    image.hidden = !source;
    if (source) image.src = source;
    if (about) image.alt = about;
  }
  const shown = (key) => $(key).querySelector("img");

  const vector = { input: null, decoded: null };
  const decode = latest(async () => {
    const answer = await ask("decode", { code: state.code, input: state.input });
    if (facts.image) {
      const image = shown("decoded");
      picture(image, answer.picture, "What the sliders decode to");
      picture(shown("difference"), answer.difference, "Difference between decoded and input");
      await image.decode();
    } else {
      vector.decoded = answer.values;
      drawVector(facts, vector);
    }
    $("one").textContent = number(answer.error);
    $("one-note").textContent = state.home ? `${number(state.home.error)} from its own code` : "choose an input";
    document.documentElement.classList.add("ready");
  });

  const check = latest(async () => {
    if (!state.about.checked) return;
    const answer = await ask("check", {}), { tau, mean, checked } = state.about;
    const bound = tau === null ? "" : `; τ is ${number(tau, 6)}`;
    $("many").textContent = number(answer.mean);
    $("many-note").textContent =
      (state.off.size ? `${number(mean)} with all dimensions` : `${checked} of them, all dimensions on`) + bound;
  });

  /* Sliders */
  function buildSliders() {
    const list = $("sliders");
    list.replaceChildren();
    if (!state.about.sliders.length) make("li", list, "No dimension is left: every input decodes to the same output.");
    state.about.sliders.forEach((one, i) => {
      const item = make("li", list), name = `Dimension ${i + 1}`;
      make("input", item, "", { type: "checkbox", checked: "", id: `on-${i}`, "aria-label": `${name} on`, autocomplete: "off" });
      make("label", item, name, { for: `z-${i}` });
      make("small", item, one.cost === null ? `gate ${one.gate}` : `gate ${one.gate}, cost ${number(one.cost, 3)}`);
      const row = make("div", item, "", { class: "row" });
      make("input", row, "", { type: "range", id: `z-${i}`, step: "any", autocomplete: "off" });
      make("output", row, "", { for: `z-${i}`, id: `value-${i}` });
      range(i, one.start);
      $(`z-${i}`).addEventListener("input", (event) => {
        state.code[i] = +event.target.value;
        $(`value-${i}`).textContent = state.code[i].toFixed(2);
        decode();
      });
      $(`z-${i}`).addEventListener("keydown", (event) => {
        const sign = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
        if (!sign || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault(); // with step "any" browsers differ in how far an arrow goes
        const slider = event.target;
        slider.value = +slider.value + (sign * (one.high - one.low)) / (event.shiftKey ? 10 : 50);
        slider.dispatchEvent(new Event("input"));
      });
      $(`on-${i}`).addEventListener("change", (event) => toggle(i, event.target.checked));
    });
  }
  /* An input's code may lie beyond the percentiles; then the slider grows. */
  function range(i, value) {
    const { low, high } = state.about.sliders[i], slider = $(`z-${i}`), least = high > low ? 0 : 1;
    slider.min = Math.min(low - least, value);
    slider.max = Math.max(high + least, value);
    slider.value = value;
    state.code[i] = value;
    $(`value-${i}`).textContent = value.toFixed(2);
  }
  function toggle(i, on) {
    if (on) state.off.delete(i);
    else state.off.add(i);
    $(`on-${i}`).checked = on;
    $(`z-${i}`).disabled = !on;
    $(`on-${i}`).closest("li").classList.toggle("off", !on);
    decode();
    check();
    strip();
  }
  function setCode(code) {
    code.forEach((value, i) => range(i, value));
    decode();
  }

  /* Inputs */
  const title = (name) => {
    const [kind, place] = name.split("-");
    return kind === "test" ? `Test input ${(+place + 1).toLocaleString("en")} of ${facts.inputs.toLocaleString("en")}` : null;
  };
  async function choose(key, name, changes) {
    const answer = await ask("input", { input: name }), about = changes || title(name) || $(`${key}-title`).textContent;
    state[key] = name;
    $(`${key}-title`).textContent = about;
    if (facts.image) picture(shown(key), answer.picture, about);
    if (key === "input") {
      state.home = answer;
      if (!facts.image) vector.input = answer.values;
      goHome();
    } else {
      state.far = answer;
      walk();
    }
    joined();
  }
  /* An upload that the server no longer has. The sliders stay as they are. */
  function forget(key) {
    Object.assign(state, key === "input" ? { input: null, home: null } : { other: null, far: null });
    $(`${key}-title`).textContent = key === "input" ? "No input is chosen." : "No second input is chosen.";
    picture(shown(key), null);
    joined();
    decode();
  }

  /* The way from the first input's code to the second one's. The slider and the code move together: a new first input
     takes both to the start, a new second one leaves the slider and moves the code. */
  function joined() {
    if ($("way")) $("way").disabled = !(state.home && state.far);
    strip();
  }
  function walk() {
    const at = +$("way").value;
    $("way-value").textContent = `${Math.round(100 * at)}%`;
    if (state.home && state.far) setCode(state.home.code.map((value, i) => (1 - at) * value + at * state.far.code[i]));
  }
  function goHome() {
    if ($("way")) {
      $("way").value = 0;
      $("way-value").textContent = "0%";
    }
    setCode(state.home ? state.home.code : state.about.sliders.map((one) => one.start));
  }
  const strip = latest(async () => {
    if (!$("strip")) return;
    const { home, far } = state;
    const answer = home && far ? await ask("between", { inputs: [state.input, state.other] }) : {};
    if (state.home === home && state.far === far) picture($("strip"), answer.strip);
  });
  function neighbour(key, which) {
    const [kind, place] = (state[key] || "").split("-"), now = kind === "test" ? +place : which === "next" ? -1 : 0;
    if (which === "random") return `test-${Math.floor(Math.random() * facts.inputs)}`;
    return `test-${(now + (which === "next" ? 1 : facts.inputs - 1)) % facts.inputs}`;
  }
  const chooser = (key) => latest((name) => (say(""), choose(key, name)));
  const chosen = { input: chooser("input"), other: chooser("other") };
  for (const button of document.querySelectorAll("[data-choose]")) {
    const { choose: key, which } = button.dataset;
    button.addEventListener("click", () => chosen[key](neighbour(key, which)));
  }
  for (const field of document.querySelectorAll("[data-upload]"))
    field.addEventListener("change", latest(async () => {
      say("");
      const [file] = field.files, key = field.dataset.upload;
      if (!file) return;
      try {
        if (file.size > facts.most) {
          const [size, most] = [file.size, facts.most].map((bytes) => bytes.toLocaleString("en"));
          throw new Error(`${file.name} has ${size} bytes; the limit is ${most}: make it smaller`);
        }
        const made = await post("upload", file, "application/octet-stream");
        await choose(key, made.input, `${file.name}: ${made.changes}`);
      } finally {
        field.value = ""; // the same file may be chosen again
      }
    }));

  /* The rest */
  $("back").addEventListener("click", goHome);
  $("all-on").addEventListener("click", () => {
    for (const i of [...state.off]) toggle(i, true);
  });
  if ($("way")) $("way").addEventListener("input", walk);

  function showModel() {
    $("headline").textContent = state.about.headline;
    if ($("tau")) {
      const count = state.about.sliders.length;
      const text = `${number(state.about.tau, 6)}: ${count} dimension${count === 1 ? "" : "s"}`;
      $("tau-value").textContent = text;
      $("tau").setAttribute("aria-valuetext", text);
    }
    buildSliders();
    check();
  }
  const swap = latest(async (place) => {
    say("");
    const about = await ask("model", { model: place });
    Object.assign(state, { model: place, about, code: [], home: null, far: null });
    state.off.clear();
    showModel();
    joined(); // the strip was the other model's
    for (const key of ["input", "other"]) if (state[key]) await choose(key, state[key]).catch(complain);
    if (!state.input) decode();
  });
  if ($("tau")) $("tau").addEventListener("input", (event) => swap(+event.target.value));
  showModel();
  if (facts.inputs) chosen.input("test-0");
  else decode();
})();
