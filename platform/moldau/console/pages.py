"""The pages of the console: each reads a request, asks the cluster, and renders a template."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moldau.client import Admin, NewTopic
from moldau.client.admin.configs import ConfigSource, Resource, ResourceType
from moldau.client.admin.progress import GroupProgress
from moldau.client.admin.survey import Survey
from moldau.client.base.offsets import EARLIEST, LATEST
from moldau.console.changes import see, store_offsets
from moldau.console.connection import Connection
from moldau.console.history import chart
from moldau.console.messages import FROMS, Message, Wanted, chosen, read, readable, tail
from moldau.console.offsets import WAYS, Ends, Move, movable, planned
from moldau.console.paging import paged
from moldau.console.picture import Listed
from moldau.console.rendering import BadForm, Renderer, form_of
from moldau.console.routes import is_still_in, visitor_of
from moldau.console.texts import indented, moment
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Topic, TopicPartition
from moldau.runtime import Clock


def topic_path(name: str, part: str = "") -> str:
    """Return the address of a topic's page."""
    return f"/topics/{quote(name, safe='')}{part}"


class Pages:
    """The endpoints of one console."""

    def __init__(self, connection: Connection, renderer: Renderer, clock: Clock) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock

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
        counts = listed.counts()
        return self._page(
            request, "cluster.html", listed, described=described, quorum=quorum, counts=counts
        )

    def _page(self, request: Request, name: str, listed: Listed, **values: Any) -> Response:
        """Return a page of the lists, with their age."""
        lists = self._connection.lists
        state = {"age_s": lists.age_s(listed), "problem": lists.problem, "query": request.url.query}
        return self._renderer.page(request, name, listed=listed, state=state, **values)

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
        return self._page(request, name, listed, **shown)

    async def create_topic(self, request: Request) -> Response:
        """Create a topic, and show it."""
        form = await form_of(request)
        name = form.get("name", "").strip()
        counts = {}
        for field in ("partitions", "replicas"):
            given = form.get(field, "").strip()
            if given and (not given.isdecimal() or not 0 < int(given) < 100_000):
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
        return self._renderer.page(request, "topic.html", topic=topic, part=part, rows=rows)

    async def settings(self, request: Request) -> Response:
        """The settings of a topic with what they mean."""
        topic = await self._topic(request)
        admin = await self._connection.admin()
        entries = await admin.describe_configs(_resource(topic.name), documentation=True)
        entries.sort(key=lambda each: (each.source is not ConfigSource.TOPIC, each.name))
        return self._renderer.page(
            request, "settings.html", topic=topic, entries=entries, own=ConfigSource.TOPIC
        )

    async def change_setting(self, request: Request) -> Response:
        """Set one setting of a topic, or return it to its default."""
        topic = await self._topic(request)
        form = await form_of(request)
        name = form.get("name", "")
        admin = await self._connection.admin()
        if form.get("unset"):
            await admin.alter_configs(_resource(topic.name), unset=[name])
        else:
            await admin.alter_configs(
                _resource(topic.name), set_to={name: form.get("value", "").strip()}
            )
        return see(f"{topic_path(topic.name, '/settings')}#{quote(name)}")

    async def messages(self, request: Request) -> Response:
        """Messages of a topic from some point."""
        topic = await self._topic(request)
        wanted = Wanted.of(request.query_params)
        indexes, leaderless = readable(topic, wanted.partition)
        mask = visitor_of(request).mask(topic.name)
        found = await read(self._connection, self._clock, topic.name, indexes, wanted, mask)
        is_part = request.headers.get("hx-target") == "found"
        return self._renderer.page(
            request,
            "messages_found.html" if is_part else "messages.html",
            topic=topic,
            found=found,
            leaderless=leaderless,
            wanted=wanted,
            copied=found.to_copy(request.query_params),
            froms=FROMS,
            query=request.url.query,
        )

    async def tail(self, request: Request) -> Response:
        """New messages as server-sent events, until the browser leaves, its session ends, or they
        cannot be had: then the browser asks again, and the answer tells it why."""
        topic = await self._topic(request)
        wanted = Wanted.of({**request.query_params, "from": "newest"})
        indexes = chosen(readable(topic, wanted.partition)[0], wanted.partition)
        mask = visitor_of(request).mask(topic.name)

        async def events() -> AsyncIterator[str]:
            yield "retry: 2000\n\n"
            with suppress(MoldauError):  # such as a topic that is deleted meanwhile
                async for messages in tail(self._connection, topic.name, indexes, wanted, mask):
                    if await request.is_disconnected() or not is_still_in(request):
                        return
                    for each in messages:
                        yield _event(each)
                    if not messages:
                        yield ": alive\n\n"

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    async def produce(self, request: Request) -> Response:
        """Send one record, and show the newest messages."""
        topic = await self._topic(request)
        form = await form_of(request)
        key, value, at = form.get("key", ""), form.get("value", ""), form.get("partition", "")
        if at and (not at.isdecimal() or int(at) >= len(topic.partitions)):
            raise BadForm(f"partition: the topic has {len(topic.partitions)}, from 0")
        options: dict[str, Any] = {"key": key.encode()} if key else {}
        if at:
            options["partition"] = int(at)
        # A browser sends each end of a line as two characters.
        data = None if form.get("tombstone") else value.replace("\r\n", "\n").encode()
        async with self._connection.producer() as producer:
            await producer.send_and_wait(topic.name, data, **options)
        return see(topic_path(topic.name, "/messages"))

    async def _topic(self, request: Request) -> Topic:
        name = request.path_params["name"]
        found = (await (await self._connection.admin()).describe_topics([name]))[name]
        if isinstance(found, KafkaError):
            raise found
        return found

    # Groups.

    async def groups(self, request: Request) -> Response:
        """A page of groups, with the lag of those that are shown."""
        text = request.query_params.get("q", "").strip()
        listed = await self._connection.lists.groups()
        found = [each for each in listed.groups if text.lower() in each.group_id.lower()]
        part = paged(found, request.query_params.get("page"))
        lags = await self._connection.lists.lags([each.group_id for each in part.rows])
        is_part = request.headers.get("hx-target") == "found"
        name = "groups_found.html" if is_part else "groups.html"
        return self._page(request, name, listed, part=part, text=text, lags=lags)

    async def group(self, request: Request) -> Response:
        """Members, offsets and lag of one group."""
        return self._group_page(request, await self._progress(request), None, {})

    def _group_page(
        self,
        request: Request,
        progress: GroupProgress,
        moves: list[Move] | None,
        form: dict[str, str],
    ) -> Response:
        return self._renderer.page(
            request,
            "group.html",
            progress=progress,
            ways=WAYS,
            moves=moves,
            form=form,
            **self._lag(progress.group.group_id),
        )

    def _lag(self, group: str) -> dict[str, Any]:
        self._connection.lists.watch()
        return {"group_id": group, "chart": chart(self._connection.lists.history.of(group))}

    async def lag(self, request: Request) -> Response:
        """The lag of a group over time, as a part of its page."""
        return self._renderer.page(request, "lag.html", **self._lag(request.path_params["name"]))

    async def plan_offsets(self, request: Request) -> Response:
        """Show what a change of offsets would do; change nothing."""
        progress = await self._progress(request)
        form = await form_of(request)
        moves = await self._moves(progress, form)
        return self._group_page(request, progress, moves, form)

    async def change_offsets(self, request: Request) -> Response:
        """Store the offsets that a plan has shown."""
        progress = await self._progress(request)
        form = await form_of(request)
        offsets: dict[TopicPartition, int] = {}
        for name, text in form.items():
            topic, colon, index = name.removeprefix("to:").rpartition(":")
            if name.startswith("to:") and colon and index.isdecimal() and text.isdecimal():
                offsets[TopicPartition(topic, int(index))] = int(text)
        if not offsets:
            raise BadForm("there is nothing to change")
        group = progress.group.group_id
        await store_offsets(self._connection, progress, offsets)
        return see(f"/groups/{quote(group, safe='')}")

    async def _moves(self, progress: GroupProgress, form: dict[str, str]) -> list[Move]:
        way, amount, topic = form.get("way", ""), form.get("amount", "").strip(), form.get("topic")
        rows = movable(progress.partitions, topic)
        places = [each.where for each in rows]
        times: dict[TopicPartition, int] = {}
        async with self._connection.consumer() as consumer:
            ends = await consumer.end_offsets(places)
            begins = await consumer.beginning_offsets(places)
            if way == "time":
                consumer.assign(places)
                try:
                    await consumer.seek_to_time(amount, places)
                except ValueError as error:
                    raise BadForm(f"time: {error}") from error
                times = {each: consumer.position(each) or 0 for each in places}
        return planned(rows, way, amount, Ends(begins, ends, times))

    async def _progress(self, request: Request) -> GroupProgress:
        admin: Admin = await self._connection.admin()
        return await admin.group_progress(request.path_params["name"])


def _event(message: Message) -> str:
    """Return a message as a server-sent event."""
    row = {
        "partition": message.partition,
        "offset": str(message.offset),
        "time": moment(message.timestamp_ms),
        "key": message.key,
        "value": indented(message.value),
    }
    return f"data: {json.dumps(row)}\n\n"


def _resource(topic: str) -> Resource:
    return Resource(ResourceType.TOPIC, topic)


def _offset(found: Any, where: TopicPartition) -> int | None:
    each = found.get(where)
    if each is None or isinstance(each, KafkaError):
        return None
    offset: int = each.offset
    return offset


MISSING: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    )
)
"""The errors that mean: what the page is about does not exist."""

UNFIT: Final = frozenset(
    (
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    )
)
"""The errors that mean: the cluster works, and what a form says does not fit it."""
