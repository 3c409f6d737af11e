"""Pipelines that run with `--status`: a list of them, and each one's picture with live numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.console.apis.pipelines import Part, Pipeline, PipelineRefused
from moldau.console.apis.rest import ask_all
from moldau.console.connection import Connection
from moldau.console.pages.drawing import Box, Picture, drawn
from moldau.console.pages.rendering import BadForm, Renderer
from moldau.console.pages.texts import number, rate
from moldau.deferred import dataclass
from moldau.diagrams import Arrow
from moldau.errors import MoldauError

NO_PIPELINES: Final = (
    "Start the console with --pipeline NAME=URL to see a pipeline that serves its status: "
    "`moldau pipeline run --status 127.0.0.1:8200`. Inside a broker that is "
    "moldau.console.pipeline=NAME=URL."
)
HEALTHY: Final = frozenset(("RUNNING", "FINISHED"))


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """A pipeline in the list, or why it does not answer."""

    name: str
    pipeline: Pipeline | None
    problem: str = ""

    @property
    def unhealthy(self) -> list[Part]:
        """The parts that do not run as they should."""
        parts = [] if self.pipeline is None else self.pipeline.parts
        return [each for each in parts if each.state not in HEALTHY]

    @property
    def lag(self) -> int | None:
        """The sum of the lags that are known."""
        parts = [] if self.pipeline is None else self.pipeline.parts
        known = [each.lag for each in parts if each.lag is not None]
        return sum(known) if known else None


class Pipelines:
    """The endpoints about pipelines."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    async def list(self, request: Request) -> Response:
        """All pipelines, with the health of their parts."""
        pipelines = self._connection.services.pipelines
        if not pipelines:
            return self._renderer.absent(request, "Pipelines", NO_PIPELINES)
        seen = await ask_all(self._seen(name) for name in pipelines)
        return self._renderer.page(request, "pipelines.html", seen=seen)

    async def pipeline(self, request: Request) -> Response:
        """One pipeline."""
        return await self._page(request, "pipeline.html")

    async def live(self, request: Request) -> Response:
        """The parts of a pipeline's page that change, to replace them."""
        return await self._page(request, "pipeline_live.html")

    async def _page(self, request: Request, template: str) -> Response:
        name = request.path_params["name"]
        pipelines: Any = self._connection.services.pipelines
        if not pipelines:
            raise BadForm(NO_PIPELINES)
        if name not in pipelines:
            known = ", ".join(sorted(pipelines))
            raise PipelineRefused(f"there is no pipeline {name} here: {known}", 404)
        found = await pipelines[name].read()
        return self._renderer.page(
            request,
            template,
            called=name,
            base=f"/pipelines/{quote(name, safe='')}",
            seen=PipelineSummary(name, found),
            picture=picture_of(found),
            healthy=HEALTHY,
        )

    async def _seen(self, name: str) -> PipelineSummary:
        try:
            found = await self._connection.services.pipelines[name].read()
        except MoldauError as error:
            return PipelineSummary(name, None, str(error))
        return PipelineSummary(name, found)


def picture_of(pipeline: Pipeline) -> Picture:
    """Return the parts and topics of a pipeline as boxes and arrows."""
    parts = [each for each in pipeline.parts if each.kind not in ("broker", "worker")]
    boxes = [
        Box(
            f"topic {each.name}",
            "topic",
            each.name,
            "external topic"
            if each.is_external
            else f"topic, {each.partitions} partition{'s' * (each.partitions != 1)}",
        )
        for each in pipeline.topics
    ]
    boxes += [_box(each) for each in parts]
    return drawn(boxes, _arrows(parts))


def _box(part: Part) -> Box:
    live = [part.state.lower()]
    if part.rate is not None:
        live.append(f"{rate(part.rate)}/s")
    if part.lag is not None:
        live.append(f"lag {number(part.lag)}")
    under = f"{part.kind}: {part.detail}" if part.detail else part.kind
    is_bad = part.state not in HEALTHY
    return Box(f"part {part.part}", part.kind, part.part, under, ", ".join(live), is_bad)


def _arrows(parts: Iterable[Part]) -> list[Arrow]:
    found = []
    for part in parts:
        found += [(f"topic {topic}", f"part {part.part}") for topic in part.reads]
        found += [(f"part {part.part}", f"topic {topic}") for topic in part.writes]
    return found
