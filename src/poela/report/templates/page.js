"use strict";
// Tables are sorted by their headings: by the number or text in data-sort, else by what a cell says; what has none comes last.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((heading, place) => {
    heading.querySelector("button").addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const numeric = heading.classList.contains("number");
      const keyed = [...body.rows].map((row) => {
        const cell = row.cells[place];
        const given = cell.dataset.sort;
        const text = given === undefined ? (numeric ? null : cell.textContent) : given;
        return [text === null ? null : numeric ? Number(text) : text, row];
      });
      keyed.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const order = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
        return down ? -order : order;
      });
      for (const [, row] of keyed) body.append(row);
    });
  });
}
// What is pointed at, or touched, in a picture tells what it stands for.
const tip = document.getElementById("tip");
const show = (event) => {
  const told = event.target.closest?.("[data-tip]");
  tip.hidden = !told;
  if (!told) return;
  tip.textContent = told.dataset.tip;
  const { clientX: x, clientY: y } = event;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.setProperty("left", `${Math.max(8, Math.min(x + 12, room))}px`);
  tip.style.setProperty("top", `${y + 16 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 16}px`);
};
addEventListener("pointermove", show);
addEventListener("pointerdown", show);
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
// Printed, what is folded is opened, and closed again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not(.kept):not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
