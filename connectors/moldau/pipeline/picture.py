"""Draw a pipeline, as text or as an SVG with sources, topics, apps, jobs and sinks in columns.

A part is one column to the right of the rightmost part before it. An app's box has its operators.
With the rows of `status`, each box has its numbers too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape

from moldau.deferred import dataclass
from moldau.diagrams import TIP, columns, curve, cut
from moldau.errors.amounts import counted
from moldau.pipeline.pipeline import App, Connector, Job, Pipeline
from moldau.pipeline.status import HEALTHY, StatusRow

_WIDTH, _GAP_X, _GAP_Y, _MARGIN = 220, 56, 22, 24
_HEAD, _LINE, _CHARACTERS = 42, 14, 34

_STYLE = "".join(
    f".pipeline {each}"  # a page may have other pictures beside this one
    for each in (
        "text{font:13px sans-serif;fill:#1b2733}",
        "text.small{font-size:11px;fill:#52606d}",
        "text.numbers{font-size:11px;font-weight:600}",
        "text.wrong{fill:#b42318}",
        "rect{stroke:#52606d;rx:6}",
        "rect.topic{fill:#e3f2e6;rx:18}",
        "rect.source{fill:#dbeafe}",
        "rect.sink{fill:#ede9fe}",
        "rect.app{fill:#fdf0d5}",
        "rect.job{fill:#fde2e4}",
        "path{stroke:#52606d;fill:none;marker-end:url(#tip)}",
    )
)


@dataclass(frozen=True, slots=True)
class _Box:
    kind: str
    title: str
    under: str
    lines: tuple[str, ...] = ()
    numbers: str = ""
    is_wrong: bool = False

    @property
    def height(self) -> int:
        count = len(self.lines) + bool(self.numbers)
        return _HEAD + _LINE * count + (6 if count else 0)


def pipeline_svg(
    pipeline: Pipeline, rows: Sequence[StatusRow] = (), records: Mapping[str, int] | None = None
) -> str:
    """Return the pipeline as an SVG document.

    `rows` are those of `status`, and `records` how many records each topic has."""
    boxes = _with_numbers(_boxes(pipeline), rows, records or {})
    arrows = _arrows(pipeline, boxes)
    positions = _positions(boxes, arrows)
    right = max((x for x, _ in positions.values()), default=0) + _WIDTH + _MARGIN
    bottom = max((y + boxes[key].height for key, (_, y) in positions.items()), default=0) + _MARGIN
    parts = [_drawn_arrow(positions, boxes, begin, end) for begin, end in arrows]
    parts += [_drawn(box, *positions[key]) for key, box in boxes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pipeline" width="{right}" '
        f'height="{bottom}" viewBox="0 0 {right} {bottom}"><title>{escape(pipeline.name)}</title>'
        f"<style>{_STYLE}</style>" + TIP + "".join(parts) + "</svg>\n"
    )


def _boxes(pipeline: Pipeline) -> dict[str, _Box]:
    found = {f"part {each.name}": _connector(each) for each in pipeline.sources}
    for topic in pipeline.topics:
        count = topic.partitions or 1
        under = "external" if topic.is_external else f"{count} partition{'s' if count > 1 else ''}"
        found[f"topic {topic.name}"] = _Box("topic", topic.name, under)
    found.update({f"part {each.name}": _app(each) for each in pipeline.apps})
    found.update(
        {f"part {each.name}": _Box("job", each.name, each.place) for each in pipeline.jobs}
    )
    found.update({f"part {each.name}": _connector(each) for each in pipeline.sinks})
    return found


def _with_numbers(
    boxes: dict[str, _Box], rows: Sequence[StatusRow], records: Mapping[str, int]
) -> dict[str, _Box]:
    found = dict(boxes)
    for row in rows:
        key = f"part {row.part}"
        if key in found:
            numbers = [] if row.rate is None else [f"{row.rate:,.0f} records/s"]
            numbers += [] if row.lag is None else [f"lag {row.lag:,}"]
            is_wrong = row.state not in HEALTHY
            if is_wrong or not numbers:
                numbers.insert(0, row.state)
            found[key] = replace(found[key], numbers=", ".join(numbers), is_wrong=is_wrong)
    for topic, count in records.items():
        if (key := f"topic {topic}") in found:
            found[key] = replace(found[key], numbers=counted(count, "record"))
    return found


def _connector(connector: Connector) -> _Box:
    kind = "source" if connector.is_source else "sink"
    return _Box(kind, connector.name, connector.short_class)


def _app(app: App) -> _Box:
    lines = [line for each in operators(app) for line in _wrapped(each)]
    return _Box("app", app.name, app.place, tuple(lines))


def _wrapped(text: str) -> list[str]:
    """Break a line of operators between them."""
    lines = [""]
    for word in text.split(" > "):
        joined = f"{lines[-1]} > {word}" if lines[-1] else word
        if len(joined) > _CHARACTERS and lines[-1]:
            lines.append(f"> {word}")
        else:
            lines[-1] = joined
    return lines


def _arrows(pipeline: Pipeline, boxes: dict[str, _Box]) -> list[tuple[str, str]]:
    found = []
    for part in pipeline.writers:
        found += [(f"part {part.name}", f"topic {topic}") for topic in part.writes]
    for topic in pipeline.topics:
        readers = pipeline.readers_of(topic.name)
        found += [(f"topic {topic.name}", f"part {reader}") for reader in readers]
    return [(begin, end) for begin, end in found if begin in boxes and end in boxes]


def _positions(boxes: dict[str, _Box], arrows: list[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Return the position of each box: below those before it in its column."""
    in_column = columns(boxes, arrows)
    used: dict[int, int] = {}
    positions = {}
    for key, box in boxes.items():
        column = in_column[key]
        y = used.get(column, _MARGIN)
        used[column] = y + box.height + _GAP_Y
        positions[key] = (_MARGIN + column * (_WIDTH + _GAP_X), y)
    return positions


def _drawn(box: _Box, x: int, y: int) -> str:
    styled = [("small", each) for each in box.lines]
    if box.numbers:
        styled.append(("numbers wrong" if box.is_wrong else "numbers", box.numbers))
    lines = "".join(
        f'<text class="{style}" x="{x + 10}" y="{y + _HEAD + 8 + _LINE * n}">{escape(line)}</text>'
        for n, (style, line) in enumerate(styled)
    )
    return (
        f'<rect class="{box.kind}" x="{x}" y="{y}" width="{_WIDTH}" height="{box.height}"/>'
        f'<text x="{x + 10}" y="{y + 18}">{escape(cut(box.title, _CHARACTERS - 4))}</text>'
        f'<text class="small" x="{x + 10}" y="{y + 34}">{box.kind}: '
        f"{escape(cut(box.under, _CHARACTERS - 4))}</text>" + lines
    )


def _drawn_arrow(
    positions: dict[str, tuple[int, int]], boxes: dict[str, _Box], begin: str, end: str
) -> str:
    x, y = positions[begin][0] + _WIDTH, positions[begin][1] + boxes[begin].height // 2
    end_x, end_y = positions[end][0], positions[end][1] + boxes[end].height // 2
    return f'<path d="{curve((x, y), (end_x, end_y), _GAP_X)}"/>'


def pipeline_text(pipeline: Pipeline) -> str:
    """Draw the path of the records, beginning at the sources.

    A part that is drawn above already is only named."""
    tree = _Tree(pipeline)
    lines = [f"pipeline {pipeline.name}", *tree.lines()]
    return "\n".join(lines) + "\n"


class _Tree:
    """Walks along the topics, from sources and from topics that nothing writes."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._apps = {each.name: each for each in pipeline.apps}
        self._jobs = {each.name: each for each in pipeline.jobs}
        self._sinks = {each.name: each for each in pipeline.sinks}
        self._topics = {each.name: each for each in pipeline.topics}
        self._drawn: set[str] = set()

    def lines(self) -> Iterator[str]:
        for source in self._pipeline.sources:
            yield f"{source.name}  source {source.short_class}"
            for topic in source.writes:
                yield from self._topic(topic, 1)
            if source.chooses_topics:
                yield "  -> topics that its config does not name"
        for name in self._topics:
            if f"topic {name}" not in self._drawn and not self._pipeline.writers_of(name):
                yield from self._topic(name, 0)
        for app in self._pipeline.apps:
            if f"app {app.name}" not in self._drawn:
                yield from self._app(app, 0)
        for job in self._pipeline.jobs:
            if f"job {job.name}" not in self._drawn:
                yield from self._job(job, 0)

    def _topic(self, name: str, depth: int) -> Iterator[str]:
        indent = _indent(depth)
        if f"topic {name}" in self._drawn:
            yield f"{indent}{name}  (above)"
            return
        self._drawn.add(f"topic {name}")
        topic = self._topics.get(name)
        count = "" if topic is None else f", {counted(topic.partitions or 1, 'partition')}"
        external = ", external" if topic is not None and topic.is_external else ""
        yield f"{indent}{name}  topic{count}{external}"
        for reader in self._pipeline.readers_of(name):
            if reader in self._apps:
                yield from self._app(self._apps[reader], depth + 1)
            elif reader in self._jobs:
                yield from self._job(self._jobs[reader], depth + 1)
            else:
                yield from self._sink(self._sinks[reader], depth + 1)

    def _app(self, app: App, depth: int) -> Iterator[str]:
        indent = _indent(depth)
        if f"app {app.name}" in self._drawn:
            yield f"{indent}{app.name}  (above)"
            return
        self._drawn.add(f"app {app.name}")
        yield f"{indent}{app.name}  app {app.place}"
        for line in operators(app):
            yield f"{'  ' * depth}   | {line}"
        for topic in app.writes:
            yield from self._topic(topic, depth + 1)

    def _job(self, job: Job, depth: int) -> Iterator[str]:
        if f"job {job.name}" in self._drawn:
            yield f"{_indent(depth)}{job.name}  (above)"
            return
        self._drawn.add(f"job {job.name}")
        yield f"{_indent(depth)}{job.name}  job {job.place}"
        for topic in job.writes:
            yield from self._topic(topic, depth + 1)

    def _sink(self, sink: Connector, depth: int) -> Iterator[str]:
        yield f"{_indent(depth)}{sink.name}  sink {sink.short_class}"
        for topic in sink.writes:
            yield from self._topic(topic, depth + 1)


def _indent(depth: int) -> str:
    return "  " * depth + "-> " if depth else ""


def operators(app: App) -> list[str]:
    """Return a line for each sub-topology, with its operators in order."""
    if app.plan is None:
        return ["cannot be imported"]
    return [" > ".join(step.kind for step in program) for program in app.plan.programs]
