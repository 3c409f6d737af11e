"""A plan as a picture: an SVG with a box for each step, in columns from sources to sinks."""

from __future__ import annotations

from html import escape

from moldau.diagrams import TIP, columns, curve, cut
from moldau.streams.plan import operations as op
from moldau.streams.plan.compile import stores_of, topics_of
from moldau.streams.plan.plan import Plan, Program

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 210, 44, 40, 18, 24

_STYLE = (
    "text{font:12px sans-serif;fill:#1b2733}.small{font-size:10px;fill:#52606d}"
    "rect{stroke:#52606d;rx:6}.topic{fill:#e3f2e6}.step{fill:#ffffff}.state{fill:#fdf0d5}"
    ".frame{fill:#f5f7fa;stroke:#cbd2d9}path{stroke:#52606d;fill:none;marker-end:url(#tip)}"
    "path.lookup{stroke-dasharray:4}"
)


def draw_svg(plan: Plan) -> str:
    """Return a picture of the whole app, with a frame for each sub-topology."""
    parts: list[str] = []
    top, width = _MARGIN, 0
    for program in plan.programs:
        drawn, right, bottom = _program(program, top + 20)
        parts.append(
            f'<rect class="frame" x="{_MARGIN / 2}" y="{top - 8}" '
            f'width="{right}" height="{bottom - top + 8}"/>'
        )
        parts.append(
            f'<text x="{_MARGIN}" y="{top + 8}">{escape(plan.app)} '
            f"sub-topology {program.index}</text>"
        )
        parts += drawn
        top, width = bottom + _MARGIN, max(width, right)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + _MARGIN}" height="{top}">'
        f"<style>{_STYLE}</style>" + TIP + "".join(parts) + "</svg>\n"
    )


def _program(program: Program, top: int) -> tuple[list[str], int, int]:
    """Return the boxes and lines of a sub-topology, and where they end."""
    places = _places(program, top)
    parts: list[str] = []
    for step in program.steps:
        x, y = places[step.name]
        kind = "state" if stores_of(step) else "step"
        if topics_of(step) or isinstance(step.operation, op.Sink | op.Reply):
            kind = "topic"
        parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}"/>'
            f'<text x="{x + 8}" y="{y + 18}">{escape(cut(step.name, 30))}</text>'
            f'<text class="small" x="{x + 8}" y="{y + 34}">{escape(step.operation.kind)}</text>'
        )
        for names, style in ((step.parents, ""), (step.lookups, ' class="lookup"')):
            for name in names:
                from_x, from_y = places[name]
                middle = _HEIGHT // 2
                path = curve((from_x + _WIDTH, from_y + middle), (x, y + middle), _GAP_X)
                parts.append(f'<path{style} d="{path}"/>')
    right = max(x for x, _ in places.values()) + _WIDTH + _MARGIN
    bottom = max(y for _, y in places.values()) + _HEIGHT + _GAP_Y
    return parts, right, bottom


def _places(program: Program, top: int) -> dict[str, tuple[int, int]]:
    """Return the place of each step: one column right of the last step before it."""
    arrows = [(name, step.name) for step in program.steps for name in step.parents + step.lookups]
    in_column = columns([step.name for step in program.steps], arrows)
    used: dict[int, int] = {}
    places = {}
    for step in program.steps:
        column = in_column[step.name]
        row = used.get(column, 0)
        used[column] = row + 1
        places[step.name] = (_MARGIN + column * (_WIDTH + _GAP_X), top + row * (_HEIGHT + _GAP_Y))
    return places
