// Details of a call on hover, fixed by a click; one order of the calls at a time, step by step. The page is complete without it.
"use strict";
const keys = handler => event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); handler(); } };

for (const chart of document.querySelectorAll(".chart")) {
  const panel = chart.querySelector(".panel"), calls = [...chart.querySelectorAll(".call")];
  const wide = chart.querySelector(".wide"), names = [...chart.querySelectorAll(".lane-name")];
  wide.addEventListener("scroll", () => names.forEach(name => name.setAttribute("x", String(4 + wide.scrollLeft))));
  const last = chart.querySelector(".impossible") ?? chart.querySelector(".witness");
  if (last !== null) { wide.scrollLeft = last.getBBox().x + last.getBBox().width - chart.clientWidth + 60; }
  let fixed = null;
  const show = call => {
    panel.hidden = call === null;
    if (call === null) { return; }
    const state = chart.querySelector(`.way:not([style*="none"]) .point[data-bar="${call.dataset.bar}"] title`);
    panel.textContent = call.getAttribute("aria-label") + (state ? "\n" + state.textContent : "");
  };
  for (const call of calls) {
    const fix = () => {
      fixed = fixed === call ? null : call;
      calls.forEach(other => other.classList.toggle("fixed", other === fixed));
      show(fixed);
    };
    call.addEventListener("click", fix);
    call.addEventListener("keydown", keys(fix));
    call.addEventListener("mouseenter", () => show(call));
    call.addEventListener("mouseleave", () => show(fixed));
  }
  const ways = [...chart.querySelectorAll(".way")], buttons = [...chart.querySelectorAll("button[data-way]")];
  if (!ways.length) { continue; }
  const ends = [...chart.querySelectorAll(".ends li")], told = chart.querySelector("output");
  let way = 0, step = 0;
  const points = () => [...ways[way].querySelectorAll(".point")];
  const draw = () => {
    ways.forEach((one, n) => { one.style.display = n === way ? "" : "none"; });
    buttons.forEach((one, n) => one.setAttribute("aria-pressed", String(n === way)));
    ends.forEach((one, n) => one.classList.toggle("chosen", n === way));
    const all = points();
    all.forEach((one, n) => { one.classList.toggle("later", n >= step); one.classList.toggle("now", n === step - 1); });
    const title = step ? all[step - 1].querySelector("title").textContent : "before the first call drawn";
    told.textContent = step === all.length ? `${title}; ${ends[way].textContent}` : title;
  };
  const choose = n => { way = n; step = points().length; draw(); };
  buttons.forEach((one, n) => one.addEventListener("click", () => choose(n)));
  for (const one of chart.querySelectorAll("button[data-step]")) {
    one.addEventListener("click", () => {
      step = Math.min(Math.max(step + Number(one.dataset.step), 0), points().length);
      draw();
    });
  }
  choose(0);
}

for (const graph of document.querySelectorAll(".graph")) {
  const nodes = [...graph.querySelectorAll(".node")], edges = [...graph.querySelectorAll("[data-edge]")];
  const rows = [...graph.closest("article").querySelectorAll("tr[data-line]")];
  let fixed = null;
  const light = chosen => {
    const after = n => nodes[(n + 1) % nodes.length];
    const number = chosen !== null && chosen.dataset.edge !== undefined ? Number(chosen.dataset.edge) : null;
    edges.forEach(one => one.classList.toggle("on", number !== null && Number(one.dataset.edge) === number));
    nodes.forEach((one, n) => one.classList.toggle("on", one === chosen || n === number || (number !== null && one === after(number))));
    rows.forEach(row => row.classList.toggle("on", nodes.some(one => one.classList.contains("on") && one.dataset.line === row.dataset.line)));
  };
  for (const one of [...edges, ...nodes]) {
    const fix = () => { fixed = fixed === one ? null : one; light(fixed); };
    one.addEventListener("click", fix);
    one.addEventListener("keydown", keys(fix));
    one.addEventListener("mouseenter", () => light(one));
    one.addEventListener("mouseleave", () => light(fixed));
  }
}
