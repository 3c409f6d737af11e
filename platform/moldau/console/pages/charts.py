"""Throughput, errors and lag over time, on the pages of a cluster, a broker, a topic and a group.

Whose numbers are shown: for the last quarter of an hour those that the nodes keep themselves, else
Prometheus', else what the console saw while it was looked at; for longer ranges Prometheus'. A page
waits HASTY_S for them; what comes later is loaded by the page.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from moldau.client.base.offsets import LATEST
from moldau.console.access.routes import Row, look
from moldau.console.apis.nodes import HASTY_S, rows_of
from moldau.console.apis.prometheus import PrometheusApi, PrometheusRefused
from moldau.console.charts import Past, added_up, charts, of_readings
from moldau.console.connection import Connection
from moldau.console.pages.rendering import Renderer
from moldau.console.refresher import LOOK_MS
from moldau.errors.codes import KafkaError
from moldau.link.metadata import TopicPartition
from moldau.metrics.ring import Block, Ring
from moldau.runtime import Clock
from moldau.runtime.timeouts import timeout

RANGES: Final = {
    "15m": ("15 minutes", 15 * 60),
    "1h": ("hour", 3600),
    "6h": ("6 hours", 6 * 3600),
    "1d": ("day", 86_400),
    "7d": ("7 days", 7 * 86_400),
}
NEAR: Final = "15m"
PATIENT_S: Final = 5.0
TOPICS_MAX: Final = 50
"""How many topics the console itself keeps looks at."""
KINDS: Final = ("cluster", "broker", "topic", "group")
NODES: Final = "the nodes' own numbers"
LOOKS: Final = "what this console saw while it was looked at"
_UNKNOWN: Final = (
    "A lag is not known to the nodes: the one that coordinates a group has no replica of a "
    "partition that the group reads, or the partition has no leader."
)
_NONE: Final = {
    "cluster": "Kafka tells no rates by its protocol.",
    "broker": "Kafka tells no rates by its protocol.",
    "topic": "There are no two looks yet.",
    "group": "There are no two looks yet.",
}


class Subject(NamedTuple):
    """What charts are about; a cluster has no name."""

    kind: str
    name: str = ""


class Ends:
    """The ends of topics when they were looked at, for Kafka that keeps no past. Rates are between
    two looks."""

    def __init__(self) -> None:
        self._rings: OrderedDict[str, Ring] = OrderedDict()
        self._last: dict[str, tuple[int, int]] = {}

    def add(self, topic: str, at_ms: int, end: int) -> None:
        """Add a look: the sum of the ends of all partitions."""
        ring = self._rings.setdefault(topic, Ring(1))
        self._rings.move_to_end(topic)
        before = self._last.get(topic)
        if before is not None and at_ms - before[0] < LOOK_MS:
            return
        self._last[topic] = at_ms, end
        if before is not None:
            rate = max(0, end - before[1]) * 1000 / (at_ms - before[0])
            ring.add(at_ms, [Block.of([(topic, (rate,))])])
        while len(self._rings) > TOPICS_MAX:
            gone, _ = self._rings.popitem(last=False)
            del self._last[gone]

    def past(self, topic: str) -> Past:
        """Return the rates of a topic."""
        ring = self._rings.get(topic)
        return of_readings(LOOKS, "messages_in", ring.of(topic) if ring else (), LOOK_MS)


class Charts:
    """The endpoint about the past, and the part of other pages that shows it."""

    def __init__(self, connection: Connection, renderer: Renderer, clock: Clock) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock
        self._ends = Ends()

    def rows(self) -> list[Row]:
        """Return the rows of the table of routes."""
        one = "/charts/{kind}"
        return [look(one, self.part), look(f"{one}/{{name:path}}", self.part)]

    async def part(self, request: Request) -> Response:
        """The charts alone, for a page that is shown."""
        about = Subject(request.path_params["kind"], request.path_params.get("name", ""))
        if about.kind not in KINDS:
            raise HTTPException(404, "no page has this address")
        shown = await self.shown(request, about, PATIENT_S)
        return self._renderer.page(request, "charts.html", **shown)

    async def shown(
        self, request: Request, about: Subject, patience_s: float = HASTY_S
    ) -> dict[str, Any]:
        """Return the values of the template for a page."""
        chosen = request.query_params.get("range", NEAR)
        if chosen not in RANGES:
            chosen = NEAR
        past = await self._past(about, chosen, patience_s)
        path = f"/charts/{about.kind}" + (f"/{quote(about.name, safe='')}" if about.name else "")
        names = RANGES if self._connection.prometheus is not None else {}
        found = charts(past)
        return {
            "past": past,
            "charts": found,
            "range": chosen,
            "ranges": {each: RANGES[each][0] for each in names},
            "charts_path": f"{path}?{urlencode({'range': chosen})}",
            "is_late": bool(past.problems) and patience_s <= HASTY_S,
            "missing": _NONE[about.kind],
        }

    async def _past(self, about: Subject, chosen: str, patience_s: float) -> Past:
        prometheus = self._connection.prometheus
        seconds = RANGES[chosen][1]
        if chosen != NEAR:
            if prometheus is None:
                why = "longer ranges come from Prometheus, and the console has no --prometheus"
                return Past("nothing", problems=[why])
            return await self._from_prometheus(prometheus, about, seconds, patience_s)
        kept = await self._from_nodes(about, patience_s)
        if kept.at_ms and not kept.is_known:
            kept.problems.append(_UNKNOWN)
        if kept.at_ms and (kept.is_known or about.kind != "group"):
            return kept
        problems = list(kept.problems)
        if prometheus is not None:
            found = await self._from_prometheus(prometheus, about, seconds, patience_s)
            if found.at_ms:
                found.problems = [*problems, *found.problems]
                return found
            problems += found.problems
        own = await self._own(about)
        own.problems = problems
        return own

    async def _from_nodes(self, about: Subject, patience_s: float) -> Past:
        query = {about.kind: about.name} if about.kind in ("topic", "group") else {}
        try:
            admin = await self._connection.admin()
            found = await self._connection.nodes.ask(admin, patience_s, query)
        except KafkaError as error:
            return Past(NODES, problems=[str(error)])
        parts = found.parts
        if about.kind == "broker":
            parts = [each for each in parts if str(each.node) == about.name]
        past = added_up(NODES, rows_of(parts))
        past.problems = found.problems
        return past

    async def _from_prometheus(
        self, api: PrometheusApi, about: Subject, seconds: int, patience_s: float
    ) -> Past:
        source = f"Prometheus at {api.url}"
        try:
            async with timeout(patience_s):
                found = await api.past(about.kind, about.name, seconds, self._clock.wall_ms())
        except PrometheusRefused as error:
            return Past(source, problems=[str(error)])
        except TimeoutError:
            why = f"Prometheus at {api.url} has not answered within {patience_s:g} s"
            return Past(source, problems=[why])
        if not found.at_ms:
            found.problems.append(f"Prometheus at {api.url} has no such series")
        return found

    async def _own(self, about: Subject) -> Past:
        """Return what the console saw itself. This is a look, too."""
        lists = self._connection.lists
        if about.kind == "group":
            lists.watch()
            return of_readings(LOOKS, "lag", lists.history.of(about.name), LOOK_MS)
        if about.kind != "topic":
            return Past(LOOKS)
        try:
            topic = await self._connection.topic(about.name)
            places = [
                TopicPartition(about.name, each.index)
                for each in topic.partitions
                if each.leader >= 0
            ]
            admin = await self._connection.admin()
            ends = await admin.list_offsets(dict.fromkeys(places, LATEST)) if places else {}
        except KafkaError as error:
            return Past(LOOKS, problems=[str(error)])
        offsets = [each.offset for each in ends.values()]
        if len(offsets) == len(topic.partitions):
            self._ends.add(about.name, self._clock.wall_ms(), sum(offsets))
        return self._ends.past(about.name)
