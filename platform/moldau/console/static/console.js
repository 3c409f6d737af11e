// Follows a topic: new messages come as server-sent events, and become rows as text, never as HTML.
"use strict";
(() => {
  let source = null;
  const rowsMax = 200;
  const cell = (row, text, kind, inner) => {
    const made = row.insertCell();
    if (kind) made.className = kind;
    const holder = inner ? made.appendChild(document.createElement(inner)) : made;
    holder.textContent = text;
  };
  const add = (message) => {
    const rows = document.getElementById("rows");
    if (!rows) return;
    rows.querySelectorAll(".empty").forEach((each) => each.remove());
    const row = rows.insertRow(0);
    row.className = "fresh";
    cell(row, message.partition, "n");
    cell(row, message.offset, "n");
    cell(row, message.time, "time");
    cell(row, message.key, "", "code");
    cell(row, message.value, "", "pre");
    while (rows.rows.length > rowsMax) rows.deleteRow(-1);
  };
  const stop = (button) => {
    if (source) source.close();
    source = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-tail]");
    if (!button) return;
    if (source) return stop(button);
    const query = new URLSearchParams(new FormData(button.form));
    source = new EventSource(`${button.dataset.tail}?${query}`);
    source.onmessage = (came) => add(JSON.parse(came.data));
    source.onopen = () => {
      button.setAttribute("aria-pressed", "true");
      button.textContent = "Stop";
    };
  });
})();
// A part that is live is replaced as a whole: it stays while a key has the focus in it, and tables
// that were scrolled stay where they were.
(() => {
  let places = [];
  const tables = () => document.querySelectorAll("#live .scroll");
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.id === "live" && event.target.querySelector(":focus-visible")) event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", () => {
    places = [...tables()].map((each) => each.scrollLeft);
  });
  document.addEventListener("htmx:afterSwap", () => {
    tables().forEach((each, index) => (each.scrollLeft = places[index] || 0));
  });
})();
