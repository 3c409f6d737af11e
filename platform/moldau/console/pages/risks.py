"""What could not be read or written if a node or a rack died now (`moldau cluster check`)."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moldau.console.connection import Connection
from moldau.console.pages.paging import RowPage, paged
from moldau.console.pages.rendering import Renderer
from moldau.errors.codes import KafkaError
from moldau.operations.availability import Risk, SeenCluster, failures_of, look, risks

TOPICS_MAX: Final = 2_000
"""A cluster with more is not looked at: the settings of each topic are asked for."""


class Risks:
    """The endpoint about risks."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    async def list(self, request: Request) -> Response:
        """What is wrong now, and what each failure would take away beside that."""
        listed = await self._connection.lists.topics()
        if len(listed.topics) > TOPICS_MAX:
            return self._page(request, notice="too many topics")
        try:
            seen = await look(await self._connection.admin())
        except KafkaError as error:
            return self._page(request, notice=str(error))
        return self._page(request, seen)

    def _page(
        self, request: Request, seen: SeenCluster | None = None, notice: str = ""
    ) -> Response:
        failures = [] if seen is None else failures_of(seen)
        found = [] if seen is None else risks(seen, failures)
        part: RowPage[Risk] = paged(found, request.query_params.get("page"))
        return self._renderer.page(
            request,
            "risks.html",
            part=part,
            failures=[each.name for each in failures],
            notice=notice,
            topics_max=TOPICS_MAX,
        )
