// Sorting by a table's head, and a filter that links of causes and kinds fill in. The page is complete without it.
"use strict";
const filter = document.getElementById("filter"), input = filter.querySelector("input"), told = filter.querySelector("output");
const rows = [...document.querySelectorAll("table.runs tbody tr")];
const show = () => {
  const words = input.value.toLowerCase().split(/\s+/);
  for (const row of rows) {
    const text = `${row.textContent} ${row.dataset.found}`.toLowerCase();
    row.hidden = !words.every(word => text.includes(word));
  }
  told.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
};
filter.hidden = false;
input.addEventListener("input", show);
document.getElementById("all").addEventListener("click", () => { input.value = ""; show(); });
for (const link of document.querySelectorAll("a[data-words]")) {
  link.addEventListener("click", () => { input.value = link.dataset.words; show(); });
}
for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0], column = head.cellIndex;
    const down = head.getAttribute("aria-sort") !== "descending", number = head.classList.contains("n");
    for (const other of head.parentNode.cells) { other.removeAttribute("aria-sort"); }
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = row => row.cells[column].textContent.trim();
    const order = (a, b) => number ? (parseFloat(value(a)) || 0) - (parseFloat(value(b)) || 0) : value(a).localeCompare(value(b));
    body.append(...[...body.rows].sort((a, b) => down ? order(b, a) : order(a, b)));
  });
}
