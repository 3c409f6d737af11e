"""The page of a broker: what it leads, its log directories and its settings."""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.admin.cluster import LogDir
from moldau.client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType
from moldau.console.connection import Connection
from moldau.console.pages.charts import Charts, Subject
from moldau.console.pages.paging import paged
from moldau.console.pages.rendering import Renderer
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError

_LARGEST: Final = 20
_MISSING: Final = "no broker of the cluster has this id"


@dataclass(frozen=True, slots=True)
class DirectoryRow:
    """A log directory, and the topics that take the most of it."""

    directory: LogDir
    used_bytes: int
    largest: list[tuple[str, int]]

    @classmethod
    def of(cls, directory: LogDir) -> DirectoryRow:
        """Return the row of a directory."""
        sizes = Counter[str]()
        for each in directory.replicas:
            sizes[each.where.topic] += each.size_bytes
        return cls(directory, sizes.total(), sizes.most_common(_LARGEST))


class Brokers:
    """The endpoint about a broker."""

    def __init__(self, connection: Connection, renderer: Renderer, charts: Charts) -> None:
        self._connection = connection
        self._renderer = renderer
        self._charts = charts

    async def broker(self, request: Request) -> Response:
        """One broker."""
        text = request.path_params["id"]
        admin = await self._connection.admin()
        described = await admin.describe_cluster()
        found = [each for each in described.brokers if str(each.node_id) == text]
        if not found:
            return self._renderer.failure(request, 404, "It is not there", _MISSING)
        node = found[0].node_id
        failures: dict[str, str] = {}
        directories: list[LogDir] = []
        entries: list[ConfigEntry] = []
        try:
            directories = await admin.describe_log_dirs([node])
        except KafkaError as error:
            failures["directories"] = str(error)
        try:
            entries = await admin.describe_configs(
                Resource(ResourceType.BROKER, text), documentation=True
            )
        except KafkaError as error:
            failures["settings"] = str(error)
        listed = await self._connection.lists.topics()
        led = [(each.name, each.leaders.count(node)) for each in listed.topics]
        part = paged([each for each in led if each[1]], request.query_params.get("page"))
        entries.sort(key=lambda each: (each.source is ConfigSource.DEFAULT, each.name))
        lists = self._connection.lists
        return self._renderer.listed(
            request,
            "broker.html",
            lists,
            listed,
            broker=found[0],
            part=part,
            leads=sum(count for _, count in led),
            directories=[DirectoryRow.of(each) for each in directories],
            entries=entries,
            failures=failures,
            **await self._charts.shown(request, Subject("broker", text)),
        )
