// The run page: one selected row and one time window for all its pictures, kept in the fragment of the address.
// The page is complete without this script; it adds selection, filters, zoom and the steps of the space-time diagram.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);
  const bar = one("#controls"), panel = one("#fields");
  if (!bar) return;
  const LEFT = Number(bar.dataset.left), PLOT = Number(bar.dataset.plot), FROM = Number(bar.dataset.from) || 0, END = Number(bar.dataset.end) || 1;
  const state = { row: null, from: FROM, to: END, hidden: new Set(), upto: null };
  const seconds = ns => (ns / 1e9).toFixed(3);

  // --- the time window of the figures: x is stretched, texts keep their shape ---
  const figures = all("svg.figure[data-start]").map(svg => {
    const inner = document.createElementNS(svg.namespaceURI, "g");
    const clip = document.createElementNS(svg.namespaceURI, "svg");
    const height = svg.viewBox.baseVal.height;
    for (const [name, value] of Object.entries({ x: LEFT, y: 0, width: PLOT + 8, height, viewBox: `${LEFT} 0 ${PLOT + 8} ${height}` })) clip.setAttribute(name, value);
    const timed = [...svg.children].filter(child => !child.classList.contains("axis-label") && !(child.tagName === "text" && Number(child.getAttribute("x")) < LEFT));
    svg.append(clip);
    clip.append(inner);
    inner.append(...timed);
    // Labels of lanes are inside of groups; they stay where they are.
    for (const label of all("text.lane-label", inner)) if (label.parentNode.dataset.process !== undefined || label.parentNode === inner) {
      const group = document.createElementNS(svg.namespaceURI, "g");
      if (label.parentNode.dataset.process !== undefined) group.dataset.process = label.parentNode.dataset.process;
      group.append(label);
      svg.append(group);
    }
    const pointer = document.createElementNS(svg.namespaceURI, "path");
    pointer.setAttribute("class", "picked");
    svg.append(pointer);
    // The ticks of the time axis are drawn anew for each window.
    const axis = document.createElementNS(svg.namespaceURI, "g");
    svg.append(axis);
    const ticks = all("text.tick[text-anchor=middle]", inner);
    return { svg, inner, pointer, axis, ticks, height, start: Number(svg.dataset.start), end: Number(svg.dataset.stop) };
  });
  // What keeps its shape: texts, and the marks of truncations and wounds, which begin 4 px before their time.
  const placed = found => found.tagName === "text" ? Number(found.getAttribute("x")) : Number(found.getAttribute("d").match(/^M(\d+)/)[1]) + 4;
  const shapes = new Map(figures.map(figure => [figure, all("text, path.mark", figure.inner).map(found => [found, placed(found)])]));

  function zoomed(figure) {
    // A picture of an anomaly keeps its own window until the reader zooms inside of it.
    const whole = figure.start === FROM && figure.end === END;
    const from = whole ? state.from : Math.max(state.from, figure.start), to = whole ? state.to : Math.min(state.to, figure.end);
    return to > from && !(state.from === FROM && state.to === END) ? [from, to] : [figure.start, figure.end];
  }

  function drawTicks(figure, from, to, own) {
    figure.axis.replaceChildren();
    for (const tick of figure.ticks) tick.style.display = own ? "none" : "";
    if (!own || !figure.ticks.length) return;
    const least = (to - from) / 10, power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map(part => part * power).find(part => part >= least);
    const digits = Math.max(0, 9 - Math.floor(Math.log10(step)));
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
      const text = figure.ticks[0].cloneNode();
      text.setAttribute("x", LEFT + (time - from) / (to - from) * PLOT);
      text.removeAttribute("transform");
      text.style.display = "";
      text.textContent = `${(time / 1e9).toFixed(digits)} s`;
      figure.axis.append(text);
    }
  }

  function draw() {
    const row = state.row === null ? null : one(`[data-row="${state.row}"][data-t]`);
    const at = row ? Number(row.dataset.t) : null;
    for (const figure of figures) {
      const [from, to] = zoomed(figure), span = figure.end - figure.start;
      const scale = span / (to - from), x0 = LEFT + (from - figure.start) / span * PLOT;
      figure.inner.setAttribute("transform", scale === 1 ? "" : `translate(${LEFT} 0) scale(${scale} 1) translate(${-x0} 0)`);
      for (const [shape, x] of shapes.get(figure)) shape.setAttribute("transform", scale === 1 ? "" : `translate(${x} 0) scale(${1 / scale} 1) translate(${-x} 0)`);
      drawTicks(figure, from, to, scale !== 1);
      const inside = at !== null && at >= from && at <= to;
      figure.pointer.setAttribute("d", inside ? `M${LEFT + (at - from) / (to - from) * PLOT} 0V${figure.height}` : "");
    }
    one("#window", bar).textContent = `${seconds(state.from)} to ${seconds(state.to)} s`;
  }

  function zoom(from, to) {
    const least = Math.min(1e5, END - FROM);
    const span = Math.min(Math.max(to - from, least), END - FROM);
    state.from = Math.min(Math.max(from, FROM), END - span);
    state.to = state.from + span;
    draw();
    keep();
  }
  const around = (factor, centre) => {
    const span = (state.to - state.from) * factor;
    const middle = centre ?? (state.from + state.to) / 2;
    const share = (middle - state.from) / (state.to - state.from);
    zoom(middle - span * share, middle + span * (1 - share));
  };
  const move = part => zoom(state.from + (state.to - state.from) * part, state.to + (state.to - state.from) * part);
  const timeAt = (figure, event) => {
    const box = figure.svg.getBoundingClientRect(), [from, to] = zoomed(figure);
    const x = (event.clientX - box.left) / box.width * figure.svg.viewBox.baseVal.width;
    return from + Math.min(Math.max((x - LEFT) / PLOT, 0), 1) * (to - from);
  };
  for (const figure of figures) {
    let begun = null;
    figure.svg.addEventListener("pointerdown", event => { if (event.button === 0 && event.pointerType === "mouse") begun = [timeAt(figure, event), event.clientX, event.shiftKey, state.from, state.to]; });
    figure.svg.addEventListener("pointermove", event => {
      if (begun === null || !begun[2]) return;
      const [from, to] = [begun[3], begun[4]];
      const shift = (begun[1] - event.clientX) / figure.svg.getBoundingClientRect().width * (to - from);
      zoom(from + shift, to + shift);
    });
    figure.svg.addEventListener("pointerup", event => {
      if (begun !== null && !begun[2] && Math.abs(event.clientX - begun[1]) > 8) {
        const other = timeAt(figure, event);
        zoom(Math.min(begun[0], other), Math.max(begun[0], other));
      }
      begun = null;
    });
    figure.svg.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      around(event.deltaY > 0 ? 1.5 : 1 / 1.5, timeAt(figure, event));
    }, { passive: false });
    figure.svg.addEventListener("dblclick", () => zoom(FROM, END));
  }

  // --- one selected row ---
  function pick(row, scroll = false) {
    state.row = row;
    for (const old of all(".chosen")) old.classList.remove("chosen");
    if (row !== null) for (const found of all(`[data-row="${row}"]`)) found.classList.add("chosen");
    show(row === null ? null : one(`.st-row[data-row="${row}"]`) ?? one(`[data-row="${row}"]:not(.st-back)`));
    if (scroll && row !== null) {
      const found = all(`[data-row="${row}"]`).find(place => place.getClientRects().length);
      found?.scrollIntoView({ block: "center" });
    }
    reveal(row);
    inside(row);
    draw();
    keep();
  }
  // The states around the selected row; of a row of which the page has none, the way to them.
  function inside(row) {
    const found = all("details.states"), own = found.find(one => one.dataset.states === row);
    for (const states of found) {
      states.classList.toggle("off", own !== undefined && states !== own);
      states.open = states === own;
    }
    const other = one("#elsewhere");
    if (!other) return;
    other.hidden = row === null || own !== undefined;
    for (const number of all("b", other)) number.textContent = row;
    const folder = /^\/store\/(.+)\/[^/]+$/.exec(location.pathname);
    if (location.protocol.startsWith("http") && folder) one("a", other).href = `/states/${folder[1]}?row=${row}`;
  }
  // The diagram has a scroll bar of its own: bring a row to its middle.
  function reveal(row) {
    const box = one(".st-box"), current = row === null ? null : one(`.st-row[data-row="${row}"]`);
    if (box && current) box.scrollTop += current.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 2;
  }
  function show(found) {
    if (!panel) return;
    const title = found && (one("title", found)?.textContent ?? found.innerText.replace(/\t/g, "  "));
    panel.textContent = title || panel.dataset.empty;
  }
  document.addEventListener("click", event => {
    const found = event.target.closest("[data-row]");
    if (found && !event.target.closest("a, summary, button")) pick(found.dataset.row === state.row ? null : found.dataset.row);
  });
  document.addEventListener("mouseover", event => {
    if (state.row !== null) return;
    const found = event.target.closest(".st-row, .st-arrow, .st-fault, .st-down");
    if (found) show(found);
  });

  // --- filters by process and partition ---
  function filter() {
    for (const box of all("input[data-hides]", bar)) box.checked = !state.hidden.has(box.dataset.hides);
    const off = name => name !== undefined && name !== "" && state.hidden.has(name);
    for (const found of all("[data-process], [data-other], [data-where], [data-partition], [data-column]")) {
      const hidden = [found.dataset.process, found.dataset.other, found.dataset.where, found.dataset.partition, found.dataset.column].some(off);
      found.classList.toggle("off", hidden);
    }
    layout();
  }
  function layout() {
    const svg = one("svg.spacetime");
    if (!svg) return;
    const top = Number(svg.dataset.top), step = Number(svg.dataset.step), places = new Map();
    const rows = all(".st-row", svg);
    let number = 0;
    for (const row of rows) {
      if (!row.classList.contains("off")) {
        places.set(row.dataset.row, top + step * number + step / 2);
        number += 1;
      }
      row.setAttribute("transform", `translate(0 ${places.get(row.dataset.row) ?? -999})`);
    }
    for (const back of all(".st-back", svg)) back.setAttribute("y", (places.get(back.dataset.row) ?? -999) - step / 2);
    // Marks of hidden rows move to the next shown one.
    const shown = rows.filter(row => !row.classList.contains("off")).map(row => Number(row.dataset.row));
    const place = row => places.get(row) ?? places.get(String(shown.find(other => other >= Number(row)))) ?? top + step * number;
    for (const arrow of all(".st-arrow", svg)) {
      const ends = places.has(arrow.dataset.from) && places.has(arrow.dataset.to);
      arrow.classList.toggle("gone", !ends);
      if (ends) arrow.setAttribute("d", `M${arrow.dataset.x1} ${place(arrow.dataset.from)}L${arrow.dataset.x2} ${place(arrow.dataset.to)}`);
    }
    for (const span of all(".st-down, .st-fault", svg)) {
      span.setAttribute("y", place(span.dataset.from));
      span.setAttribute("height", Math.max(place(span.dataset.to) - place(span.dataset.from), 4));
    }
  }
  bar.addEventListener("change", event => {
    const name = event.target.dataset?.hides;
    if (name === undefined) return;
    if (event.target.checked) state.hidden.delete(name); else state.hidden.add(name);
    filter();
    keep();
  });

  // --- steps of the diagram ---
  const rows = () => all("svg.spacetime .st-row:not(.off)");
  function upto(row) {
    state.upto = row;
    const last = row === null ? Infinity : Number(row);
    for (const found of all("svg.spacetime .st-row")) found.classList.toggle("later", Number(found.dataset.row) > last);
    for (const found of all("svg.spacetime .st-arrow")) found.classList.toggle("later", Number(found.dataset.to) > last);
    pick(row);
  }
  function go(by) {
    const found = rows(), place = found.findIndex(row => row.dataset.row === state.upto);
    const next = place < 0 ? (by > 0 ? 0 : found.length - 1) : Math.min(Math.max(place + by, 0), found.length - 1);
    if (found.length) upto(found[next].dataset.row);
  }
  const actions = {
    in: () => around(0.5), out: () => around(2), left: () => move(-0.5), right: () => move(0.5), whole: () => zoom(FROM, END),
    back: () => go(-1), next: () => go(1), end: () => upto(null), none: () => pick(null),
    show: () => { state.hidden.clear(); filter(); keep(); },
  };
  document.addEventListener("click", event => {
    const name = event.target.closest("button[data-do]")?.dataset.do;
    if (name) actions[name]();
  });
  one(".st-box")?.addEventListener("keydown", event => {
    const by = { ArrowDown: 1, ArrowRight: 1, j: 1, ArrowUp: -1, ArrowLeft: -1, k: -1 }[event.key];
    if (by) { event.preventDefault(); go(by); }
    if (event.key === "Escape") upto(null);
  });

  // --- the fragment: #row=12&t=1.2-3.4&hide=b1,b2, or the plain name of a section ---
  let kept = "";
  function keep() {
    const parts = [];
    if (state.row !== null) parts.push(`row=${state.row}`);
    if (state.from > FROM || state.to < END) parts.push(`t=${seconds(state.from)}-${seconds(state.to)}`);
    if (state.hidden.size) parts.push(`hide=${[...state.hidden].map(encodeURIComponent).join(",")}`);
    const next = parts.length ? `#${parts.join("&")}` : "";
    if (next !== kept && (next || kept)) history.replaceState(null, "", next || location.pathname + location.search);
    kept = next;
  }
  function restore() {
    const given = Object.fromEntries(location.hash.slice(1).split("&").map(part => part.split("=")));
    const [from, to] = (given.t ?? "").split("-").map(Number);
    if (given.hide) state.hidden = new Set(given.hide.split(",").map(decodeURIComponent));
    if (to > from && to * 1e9 > FROM && from * 1e9 < END) { state.from = Math.max(from * 1e9, FROM); state.to = Math.min(to * 1e9, END); }
    kept = location.hash;
    filter();
    draw();
    if (given.row && /^\d+$/.test(given.row)) pick(given.row, true);
    else reveal(one(".st-box")?.dataset.first ?? null);
  }
  // The controls stay below the contents, which take several lines in a narrow window.
  const stack = () => { if (!matchMedia("(max-width: 700px)").matches) bar.style.top = `${one("nav").offsetHeight}px`; };
  addEventListener("resize", stack);
  stack();
  // A phone shows the first screen and the headings; the reader opens what is wanted.
  if (matchMedia("(max-width: 700px)").matches) for (const found of all("details[open]:not(.keep)")) found.open = false;
  // A link to an anomaly opens its proof.
  const opened = () => { for (const found of all(":target > details.proof")) found.open = true; };
  addEventListener("hashchange", () => {
    opened(); if (location.hash !== kept && location.hash.includes("=")) restore();
  });
  addEventListener("beforeprint", () => all("details").forEach(found => { found.open = true; }));
  restore();
  opened();
})();
