"""Write the report: one HTML file with its plots in it, without scripts and without other files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from itertools import cycle

from examples.shop.database import Totals

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 860, 240, 84, 26
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #66708a; --line: #d9dee8;
  --bar: #2f6fdb; --other: #d9822b; --card: #ffffff; --page: #f4f6fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --soft: #9aa3b8; --line: #3a4358;
  --bar: #6ea0f5; --other: #f0a85e; --card: #1c2230; --page: #12161f; } }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 16px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 0 0 12px; }
p { color: var(--soft); margin: 0 0 24px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px; margin-bottom: 20px; }
.numbers { display: flex; flex-wrap: wrap; gap: 12px; margin-bottom: 20px; }
.numbers div { flex: 1 1 150px; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; padding: 14px 18px; color: var(--soft); }
.numbers b { display: block; font-size: 22px; color: var(--ink); }
.plot { overflow-x: auto; }
svg { width: 100%; min-width: 720px; height: auto; display: block; }
text { fill: var(--soft); font-size: 12px; } .name { fill: var(--ink); }
.grid { stroke: var(--line); } .bar { fill: var(--bar); }
.one { stroke: var(--bar); } .two { stroke: var(--other); }
.one, .two { fill: none; stroke-width: 2; }
.key-one { fill: var(--bar); } .key-two { fill: var(--other); }
ul { margin: 0; padding-left: 20px; } a { color: var(--bar); }
"""


@dataclass(frozen=True)
class Lag:
    """The lag of the Streams app and of the Spark sink, in records, at a second of the run."""

    second: float
    streams: int
    lake: int


@dataclass(frozen=True)
class Appendix:
    """What the page has beside its numbers: the picture of the running pipeline, and links."""

    picture: str = ""
    """An SVG, with the numbers of the parts while orders were sold."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The files that the demo is made of, by their names: links to them."""


def page(
    totals: Totals,
    lags: Sequence[Lag],
    seconds: float,
    problems: Sequence[str],
    appendix: Appendix | None = None,
) -> str:
    """Return the whole HTML page."""
    appendix = appendix or Appendix()
    verdict = (
        "The lake, the topics and the database agree on every total."
        if not problems
        else "The totals differ: " + "; ".join(problems)
    )
    numbers = {
        "orders": f"{totals.orders:,}",
        "revenue": _euro(totals.cents),
        "minutes": str(len(totals.by_minute)),
        "seconds for the whole demo": f"{seconds:.0f}",
    }
    cards = "".join(f"<div><b>{each}</b>{escape(name)}</div>" for name, each in numbers.items())
    minutes = [
        (datetime.fromtimestamp(start / 1000, UTC).strftime("%H:%M"), cents)
        for start, cents in sorted(totals.by_minute.items())
    ]
    best = sorted(totals.by_customer.items(), key=lambda each: -each[1])[:10]
    plots = [
        ("Revenue per minute", columns(minutes)),
        ("Top customers", bars(best)),
        ("Lag while it ran, in records", lines(lags)),
    ]
    if appendix.picture:
        # In a page an SVG needs no namespace.
        picture = appendix.picture.replace(' xmlns="http://www.w3.org/2000/svg"', "")
        plots.insert(0, ("The pipeline, while orders were sold", picture))
    sections = "".join(
        f'<section><h2>{escape(name)}</h2><div class="plot">{svg}</div></section>'
        for name, svg in plots
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The shop</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>The shop</h1><p>{escape(verdict)}</p>"
        f'<div class="numbers">{cards}</div>{sections}{_links(appendix.sources)}'
        "</main></body></html>\n"
    )


def svg_in(output: str) -> str:
    """Return the SVG in the output of a command; an empty text if there is none."""
    begin, end = output.find("<svg"), output.rfind("</svg>")
    return output[begin : end + len("</svg>")] if 0 <= begin < end else ""


def _links(sources: Mapping[str, str]) -> str:
    if not sources:
        return ""
    items = "".join(
        f'<li><a href="{escape(target)}">{escape(name)}</a></li>'
        for name, target in sources.items()
    )
    return f"<section><h2>Made by</h2><ul>{items}</ul></section>"


def columns(values: Sequence[tuple[str, int]]) -> str:
    """Return a plot with a column for each minute."""
    if not values:
        return _no_data()
    marks = ticks(max(cents for _, cents in values), least=100)
    top = marks[-1]
    step = (_WIDTH - _LEFT) / len(values)
    every = next(each for each in (1, 2, 5, 10, 15, 30, len(values)) if len(values) / each <= 12)
    parts = _grid(marks, _euro)
    for index, (name, cents) in enumerate(values):
        height = cents / top * (_HEIGHT - _BOTTOM - 10)
        x, y = _LEFT + index * step, _HEIGHT - _BOTTOM - height
        parts.append(
            f'<rect class="bar" x="{x + step * 0.12:.1f}" y="{y:.1f}" width="{step * 0.76:.1f}" '
            f'height="{height:.1f}" rx="2"><title>{name} {_euro(cents)}</title></rect>'
        )
        if index % every == 0:
            middle = x + step / 2
            parts.append(_text(middle, _HEIGHT - 8, name, "middle"))
    return _svg(parts, _HEIGHT)


def bars(values: Sequence[tuple[str, int]]) -> str:
    """Return a plot with a bar for each customer."""
    if not values:
        return _no_data()
    top = max(cents for _, cents in values) or 1
    parts = []
    for index, (name, cents) in enumerate(values):
        y = index * 26
        width = cents / top * (_WIDTH - 260)
        parts.append(_text(0, y + 17, name, "start", "name"))
        parts.append(
            f'<rect class="bar" x="140" y="{y + 4}" width="{width:.1f}" height="18" rx="3"/>'
        )
        parts.append(_text(148 + width, y + 17, _euro(cents), "start"))
    return _svg(parts, 26 * len(values))


def lines(lags: Sequence[Lag]) -> str:
    """Return a plot with two lines of lag over the seconds of the run."""
    if not lags:
        return _no_data()
    marks = ticks(max(max(each.streams, each.lake) for each in lags))
    top, end = marks[-1], max(1.0, lags[-1].second)
    parts = _grid(marks, "{:,}".format)
    x: float
    for style, read in (("one", _of_streams), ("two", _of_lake)):
        points = " ".join(
            f"{_LEFT + each.second / end * (_WIDTH - _LEFT):.1f},"
            f"{_HEIGHT - _BOTTOM - read(each) / top * (_HEIGHT - _BOTTOM - 10):.1f}"
            for each in lags
        )
        parts.append(f'<polyline class="{style}" points="{points}"/>')
    for x, style, name in ((_LEFT + 8, "one", "Streams app"), (_LEFT + 130, "two", "Spark sink")):
        parts.append(f'<rect class="key-{style}" x="{x}" y="4" width="12" height="12" rx="2"/>')
        parts.append(_text(x + 18, 14, name, "start", "name"))
    for second in ticks(int(end)):
        if second <= end:
            x = _LEFT + second / end * (_WIDTH - _LEFT)
            anchor = "start" if not second else "end" if second > 0.95 * end else "middle"
            parts.append(_text(x, _HEIGHT - 8, f"{second} s", anchor))
    return _svg(parts, _HEIGHT)


def _of_streams(lag: Lag) -> int:
    return lag.streams


def _of_lake(lag: Lag) -> int:
    return lag.lake


def ticks(top: int, least: int = 1) -> list[int]:
    """Return the marks of an axis from 0 to `top` or a little more: up to six round numbers, which
    are multiples of `least`."""
    step = least
    for factor in cycle((2, 2.5, 2)):  # 1, 2, 5, 10, 20, 50
        if step * 5 >= top:
            break
        step = int(step * factor)
    return [step * index for index in range(max(1, -(-top // step)) + 1)]


def _grid(marks: Sequence[int], show: Callable[[int], str]) -> list[str]:
    """Return horizontal lines with their values."""
    parts = []
    for mark in marks:
        y = _HEIGHT - _BOTTOM - mark / marks[-1] * (_HEIGHT - _BOTTOM - 10)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_text(_LEFT - 8, y + 4, show(mark), "end"))
    return parts


def _text(x: float, y: float, words: str, anchor: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _svg(parts: Sequence[str], height: int) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'


def _no_data() -> str:
    return "<p>no data</p>"


def _euro(cents: int) -> str:
    return f"EUR {cents / 100:,.0f}"
