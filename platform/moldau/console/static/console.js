// Follows a topic: new messages come as server-sent events, and become rows as text, never as HTML.
"use strict";
(() => {
  let source = null;
  let pressed = null;
  const tell = (text) => {
    const place = document.getElementById("following");
    if (place) place.textContent = text;
  };
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
  const stop = (text) => {
    source.close();
    source = null;
    pressed.setAttribute("aria-pressed", "false");
    pressed.textContent = "Follow";
    tell(text);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-tail]");
    if (!button) return;
    if (source) return stop("");
    const query = new URLSearchParams(new FormData(button.form));
    let wasCut = false;
    pressed = button;
    source = new EventSource(`${button.dataset.tail}?${query}`);
    source.onmessage = (came) => add(JSON.parse(came.data));
    source.onopen = () => {
      button.setAttribute("aria-pressed", "true");
      button.textContent = "Stop";
      tell(wasCut ? "It was cut off: messages may be missing here." : "");
    };
    // A connection that is lost is made again; one that is refused is closed for good.
    source.onerror = () => {
      wasCut = true;
      if (source.readyState !== EventSource.CLOSED) return tell("Cut off, connecting again ...");
      stop("It cannot be followed: load the page again to see why.");
    };
  });
  // Other rows are shown, perhaps by another filter.
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (source && event.detail.target.id === "found") stop("");
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
// A part that asks how far a search is, or its button, may be replaced by another answer before its
// own comes. That one has no place any more: htmx looks for it around the part.
document.addEventListener("htmx:beforeRequest", ({ target }) => {
  const dropIfGone = (event) => {
    if (!target.isConnected && event.detail.xhr.getResponseHeader("HX-Retarget")) event.preventDefault();
  };
  target.addEventListener("htmx:beforeOnLoad", dropIfGone, { once: true });
});
// A search finds more rows while a record is looked at: what is open stays open, and keeps the focus.
(() => {
  let open = [];
  let focused = "";
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "found") return;
    open = [...document.querySelectorAll("#found details[open]")].map((each) => each.id);
    focused = document.activeElement?.closest("#found details")?.id || "";
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of open) {
      const found = id && document.getElementById(id);
      if (found) found.open = true;
    }
    if (focused) document.getElementById(focused)?.querySelector("summary").focus();
    open = [];
    focused = "";
  });
})();
// Draws the charts of a page, which are plain pictures without this. The caption shows the values of
// the time that the pointer is at.
(() => {
  const units = ["", " K", " M", " G", " T"];
  const shortened = (value, full, end) => {
    let unit = 0;
    while (Math.abs(value) >= full && unit < units.length - 1) { value /= full; unit += 1; }
    const digits = value && Math.abs(value) < 10 ? 1 : 0;
    return `${Number(value.toFixed(digits))}${units[unit]}${end && (unit ? end : ` ${end}`)}`;
  };
  const drawn = (plot) => {
    const data = JSON.parse(plot.dataset.plot);
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const text = (value) => (data.unit === "bytes" ? shortened(value, 1024, "B") : shortened(value, 1000, ""));
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const span = data.at[data.at.length - 1] - data.at[0];
    const [from, to] = span > 129600 ? [5, 10] : span > 300 ? [11, 16] : [11, 19];
    const time = (at) => new Date(at * 1000).toISOString().slice(from, to);
    const lines = data.lines.map(([label], index) => ({
      label, width: 2, stroke: colour(index ? "--warn" : "--accent"), dash: index ? [6, 4] : [], points: { show: false },
    }));
    const shown = [...plot.closest("figure").querySelectorAll("figcaption b")];
    const last = shown.map((each) => each.textContent);
    const picture = plot.querySelector("svg");
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", picture.getAttribute("aria-label"));
    picture.remove();
    plot.classList.add("drawn");
    const size = () => ({ width: plot.clientWidth - 10, height: 170 });
    const made = new uPlot({
      ...size(),
      legend: { show: false },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "Etc/UTC"),
      cursor: { drag: { x: false, y: false }, y: false },
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(time) }, { ...axis, size: 64, values: (_, ticks) => ticks.map(text) }],
      series: [{}, ...lines],
      hooks: {
        setCursor: [(chart) => data.lines.forEach(([, values], line) => {
          const value = chart.cursor.idx == null ? null : values[chart.cursor.idx];
          shown[line].textContent = chart.cursor.idx == null ? last[line] : value == null ? "-" : text(value);
        })],
      },
    }, [data.at, ...data.lines.map(([, values]) => values)], plot);
    new ResizeObserver(() => made.setSize(size())).observe(plot);
  };
  const draw = () => window.uPlot && document.querySelectorAll(".plot:not(.drawn)").forEach(drawn);
  draw();
  document.addEventListener("htmx:afterSwap", draw);
})();
