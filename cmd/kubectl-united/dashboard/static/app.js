// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// What the server cannot do: the filter of the list, the dialog, clocks, and the partition line while its number is edited.
"use strict";

const $ = (id) => document.getElementById(id);

function filter() {
  const form = $("filter");
  if (!form) return;
  const words = $("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const states = [...form.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  const rows = [...document.querySelectorAll("tr[data-state]")];
  let shown = 0;
  for (const row of rows) {
    const text = row.dataset.words.toLowerCase();
    row.hidden = !states.includes(row.dataset.state) || !words.every((word) => text.includes(word));
    if (!row.hidden) shown++;
  }
  if ($("shown")) $("shown").textContent = shown === rows.length ? "" : shown + " shown";
}

// edited are the numbers that somebody has changed and not applied, by field. The others follow the server, also with the focus.
const edited = new Map();

// preview marks the replicas that an edited number would release or protect. The plan says what comes of it.
function preview() {
  for (const field of document.querySelectorAll(".partition input[type=number]")) {
    field.value = edited.get(field.id) ?? field.defaultValue;
    const zone = field.closest(".zone");
    const is = Number(zone.dataset.partition);
    const wants = field.value === "" ? is : Number(field.value);
    for (const cell of zone.querySelectorAll(".cell")) {
      const from = Number(cell.dataset.from), to = Number(cell.dataset.to);
      cell.classList.toggle("would-release", from < is && to >= wants && wants < is);
      cell.classList.toggle("would-protect", to >= is && from < wants && wants > is);
    }
    zone.classList.toggle("edited", wants !== is);
  }
}

function tick() {
  for (const clock of document.querySelectorAll("[data-until]")) {
    const left = Math.round((Date.parse(clock.dataset.until) - Date.now()) / 1000);
    const two = (n) => String(n).padStart(2, "0");
    clock.textContent = left <= 0 ? "(over)" : "(" + (left >= 3600 ? Math.floor(left / 3600) + ":" : "") + two(Math.floor(left / 60) % 60) + ":" + two(left % 60) + " left)";
  }
}

let headline = "";

function refresh() {
  filter();
  preview();
  tick();
  if (!document.querySelector(".headline")) $("said").replaceChildren(); // the object is gone
  const said = document.querySelector(".headline")?.textContent ?? "";
  if (headline !== "" && said !== headline) $("why")?.dispatchEvent(new Event("look"));
  headline = said;
}

document.addEventListener("input", (event) => {
  if (event.target.closest("#filter")) filter();
  if (event.target.closest(".partition")) {
    edited.set(event.target.id, event.target.value);
    preview();
  }
});

// sent are the forms that act, until a second after their answer: the second click of a double click does nothing.
const sent = new WeakSet();
document.addEventListener("submit", (event) => {
  const form = event.target;
  const acts = form.matches("[hx-post$='/do']");
  if (form.id === "filter" || sent.has(form)) event.preventDefault();
  if (sent.has(form)) event.stopImmediatePropagation();
  else if (acts) sent.add(form);
}, true);
document.addEventListener("htmx:finally:request", (event) => {
  const form = event.detail.ctx.sourceElement;
  setTimeout(() => sent.delete(form), 1000);
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[aria-disabled=true]")) event.preventDefault();
  if (event.target.closest(".dismiss")) $("said").replaceChildren();
});

// The answer to a change of the partition ends its preview, and the dialog ends with it.
document.addEventListener("htmx:after:swap", (event) => {
  const target = event.detail?.ctx?.target;
  if (target === $("sheet")) {
    $("said").replaceChildren();
    if (!target.open) target.showModal();
  }
  if (target === $("said")) $("sheet")?.close();
  refresh();
});
document.addEventListener("close", (event) => {
  if (event.target.id !== "sheet") return;
  edited.clear();
  event.target.replaceChildren();
  refresh();
}, true);

document.addEventListener("htmx:sse:error", () => { $("offline").hidden = false; });
document.addEventListener("htmx:sse:after:connection", (event) => { $("offline").hidden = event.detail.connection.status === 200; });

setInterval(tick, 1000);
refresh();
