// Filters without a button, two runs to compare, and a page that follows the store. The pages are complete without it.
"use strict";
const ask = document.getElementById("ask");
let timer = 0;

const replace = async (address, parts) => {
  const answer = await fetch(address, { credentials: "omit" });
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of parts) {
    const fresh = found.querySelector(part), old = document.querySelector(part);
    if (fresh !== null && old !== null) { old.replaceWith(document.adoptNode(fresh)); }
  }
  chosen();
};

const show = () => {
  const given = [...new FormData(ask)].filter(([, value]) => value !== "");
  const address = `/?${new URLSearchParams(given)}`;
  history.replaceState(null, "", address);
  replace(address, ["#list"]);
};

const boxes = () => [...document.querySelectorAll("#list input[type=checkbox]")];
const chosen = () => {
  const ticked = boxes().filter(box => box.checked).length;
  for (const box of boxes()) { box.disabled = !box.checked && ticked >= 2; }
  document.getElementById("compare").disabled = ticked !== 2;
};

ask.addEventListener("submit", event => { event.preventDefault(); show(); });
ask.addEventListener("input", event => {
  clearTimeout(timer);
  timer = setTimeout(show, event.target.tagName === "INPUT" ? 250 : 0);
});
document.addEventListener("change", event => { if (event.target.name === "key") { chosen(); } });
chosen();

const follow = async () => {
  const live = document.getElementById("live");
  try {
    const { version } = await (await fetch("/version", { credentials: "omit" })).json();
    if (String(version) !== live.dataset.version) {
      // What the reader has ticked must stay.
      const parts = boxes().some(box => box.checked) ? ["#live"] : ["#live", "#list"];
      await replace(location.href, parts);
    }
    document.body.classList.remove("gone");
  } catch {
    document.body.classList.add("gone"); // the server has ended; it may come back
  }
};
setInterval(() => { if (!document.hidden) { follow(); } }, 2000);
