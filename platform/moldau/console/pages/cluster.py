"""The pages of the console: each reads a request, asks the cluster, and renders a template."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.client import NewTopic
from moldau.client.admin.configs import ConfigEntry, ConfigSource, Resource, ResourceType
from moldau.client.admin.survey import Survey
from moldau.client.base.offsets import EARLIEST, LATEST
from moldau.console.connection import Connection
from moldau.console.pages.charts import Charts, Subject
from moldau.console.pages.messages import topic_path
from moldau.console.pages.paging import paged
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see, typed_name
from moldau.console.pages.texts import duration, size
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError
from moldau.link.metadata import Topic, TopicPartition
from moldau.operations.settings import change
from moldau.operations.tiers import tiers_of
from moldau.operations.topics import alter

PARTITIONS_MAX: Final = 100_000
_CHOICES: Final = {
    "cleanup.policy": ("delete", "compact", "compact,delete"),
    "compression.type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}
_BOOLEANS: Final = ("true", "false")
_UNLIMITED: Final = 2**53
"""From here a number means that there is no limit: the longest time or the largest size."""
_MS_OF_SECOND: Final = 1000


class Pages:
    """The endpoints about the cluster and its topics."""

    def __init__(self, connection: Connection, renderer: Renderer, charts: Charts) -> None:
        self._connection = connection
        self._renderer = renderer
        self._charts = charts

    # The cluster.

    async def cluster(self, request: Request) -> Response:
        """Brokers and the metadata quorum."""
        admin = await self._connection.admin()
        described = await admin.describe_cluster()
        listed = await self._connection.lists.topics()
        try:
            quorum = await admin.describe_quorum()
        except KafkaError:
            quorum = None  # an old Kafka, or one without rights for it
        facts = {"described": described, "quorum": quorum, "counts": listed.counts()}
        facts |= await self._charts.shown(request, Subject("cluster"))
        lists = self._connection.lists
        return self._renderer.listed(request, "cluster.html", lists, listed, **facts)

    # Topics.

    async def topics(self, request: Request) -> Response:
        """A page of the topics whose names contain a text."""
        query = request.query_params
        text, internal = query.get("q", "").strip(), query.get("internal") == "1"
        listed, wanted = await self._connection.lists.topics(), text.lower()
        found = [
            each
            for each in listed.topics
            if wanted in each.name.lower() and (internal or not each.is_internal)
        ]
        part = paged(found, query.get("page"))
        survey = Survey(await self._connection.admin())
        sizes = await survey.sizes({each.name: len(each.leaders) for each in part.rows})
        is_part = request.headers.get("hx-target") == "found"
        name = "topics_found.html" if is_part else "topics.html"
        shown = {"part": part, "text": text, "internal": internal, "sizes": sizes}
        lists = self._connection.lists
        return self._renderer.listed(request, name, lists, listed, **shown)

    async def create_topic(self, request: Request) -> Response:
        """Create a topic, and show it."""
        form = await form_of(request)
        name = form.get("name", "").strip()
        counts = {}
        for field in ("partitions", "replicas"):
            given = form.get(field, "").strip()
            if given and (not given.isdecimal() or not 0 < int(given) < PARTITIONS_MAX):
                raise BadForm(f"{field}: give a whole number from 1, or none for the default")
            counts[field] = int(given) if given else -1
        if not name:
            raise BadForm("name: give the topic a name")
        admin = await self._connection.admin()
        await admin.create_topic(NewTopic(name, counts["partitions"], counts["replicas"]))
        await self._connection.lists.topic_changed(name)
        return see(topic_path(name))

    async def topic(self, request: Request) -> Response:
        """Partitions, replicas and offsets of one topic."""
        topic = await self._topic(request)
        admin = await self._connection.admin()
        part = paged(topic.partitions, request.query_params.get("page"))
        led = [TopicPartition(topic.name, each.index) for each in part.rows if each.leader >= 0]
        begins = await admin.list_offsets(dict.fromkeys(led, EARLIEST)) if led else {}
        ends = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
        rows = []
        for each in part.rows:
            where = TopicPartition(topic.name, each.index)
            begin, end = _offset(begins, where), _offset(ends, where)
            rows.append((each, begin, end))
        past = await self._charts.shown(request, Subject("topic", topic.name))
        shown = {"topic": topic, "part": part, "rows": rows, **past}
        return self._renderer.page(request, "topic.html", **shown)

    async def tiers(self, request: Request) -> Response:
        """Where the tiers of one topic begin, and what is not in the remote one yet."""
        topic = await self._topic(request)
        part = paged(topic.partitions, request.query_params.get("page"))
        leaders = {TopicPartition(topic.name, each.index): each.leader for each in part.rows}
        admin = await self._connection.admin()
        found = await tiers_of(admin, leaders, {topic.name: topic.topic_id})
        rows = [(each, size(each.local_bytes or 0)) for each in found.found]
        is_remote = any(each.pending is not None for each in found.found)
        return self._renderer.page(
            request,
            "topic_tiers.html",
            topic=topic,
            part=part,
            rows=rows,
            gone=found.leaderless,
            is_remote=is_remote,
        )

    async def settings(self, request: Request) -> Response:
        """The settings of a topic with what they mean."""
        topic = await self._topic(request)
        admin = await self._connection.admin()
        entries = await admin.describe_configs(_resource(topic.name), documentation=True)
        entries.sort(key=lambda each: (each.source is not ConfigSource.TOPIC, each.name))
        rows = [SettingRow.of(each) for each in entries]
        return self._renderer.page(request, "settings.html", topic=topic, rows=rows)

    async def change_setting(self, request: Request) -> Response:
        """Set one setting of a topic, or return it to its default."""
        topic = await self._topic(request)
        form = await form_of(request)
        name = form.get("name", "")
        admin, resource = await self._connection.admin(), _resource(topic.name)
        if form.get("unset"):
            await change(admin, resource, unset=[name])
        else:
            await change(admin, resource, {name: form.get("value", "").strip()})
        return see(f"{topic_path(topic.name, '/settings')}#{quote(name)}")

    async def delete_topic(self, request: Request) -> Response:
        """Delete a topic. The form repeats its name."""
        name = await typed_name(request, "topic")
        await (await self._connection.admin()).delete_topic(name)
        self._connection.lists.change(lambda listed: listed.drop(name))
        return see("/topics")

    async def add_partitions(self, request: Request) -> Response:
        """Give a topic more partitions."""
        name = request.path_params["name"]
        text = (await form_of(request)).get("count", "").strip()
        if not text.isdecimal() or not 0 < int(text) < PARTITIONS_MAX:
            raise BadForm("partitions: give the whole number that the topic is to have")
        await alter(await self._connection.admin(), name, partitions=int(text))
        await self._connection.lists.topic_changed(name)
        return see(topic_path(name))

    async def _topic(self, request: Request) -> Topic:
        return await self._connection.topic(request.path_params["name"])


def _resource(topic: str) -> Resource:
    return Resource(ResourceType.TOPIC, topic)


def _offset(found: Any, where: TopicPartition) -> int | None:
    each = found.get(where)
    if each is None or isinstance(each, KafkaError):
        return None
    offset: int = each.offset
    return offset


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting, what its value means to a person, and the values it may have (none: any)."""

    entry: ConfigEntry
    meaning: str
    choices: tuple[str, ...]

    @property
    def is_own(self) -> bool:
        """Whether it is set for the topic itself."""
        return self.entry.source is ConfigSource.TOPIC

    @classmethod
    def of(cls, entry: ConfigEntry) -> SettingRow:
        value = entry.value or ""
        choices = _CHOICES.get(entry.name, ())
        if not choices and value in _BOOLEANS:
            choices = _BOOLEANS
        if choices and value not in choices:
            choices = (value, *choices)
        return cls(entry, meaning_of(entry.name, value), choices)


def meaning_of(name: str, value: str) -> str:
    """Return a time or a size with its unit, or an empty text for other settings."""
    unit = name.rpartition(".")[2]
    if unit not in ("ms", "bytes"):
        return ""
    try:
        number = int(value)
    except ValueError:
        return ""
    if number >= _UNLIMITED or number == -1:
        return "no limit"
    if number < 0:
        return ""
    return duration(number / _MS_OF_SECOND) if unit == "ms" else size(number)
