"""The dead letters of a sink: a list of them with what went wrong, and their replay.

A replay sends key, value and headers as the sink had read them, without the headers about the
error, to the topic that each record came from, or to one that is chosen. The time is that of the
replay, unless a form asks for the records' own: a topic may delete old ones at once. Either the
records that were chosen are sent, or all that were not replayed yet: these are known by the offsets
of the group `connect-dlq-replay-NAME`, which `moldau connect dlq replay` uses as well.

Invariants: what a preview has shown is what is sent; it is sent and the offsets are stored in one
transaction, so nothing is sent twice and nothing half; a replay has RECORDS_MAX records at most.
A replay that starts fences the one before it, of any console or command, by the transactional id
of the connector's replays; only then it looks at the offsets. So of two at once one sends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.base.coordinator import GroupMetadata
from moldau.client.producer.transaction_errors import TransactionError
from moldau.console.access.routes import check_masks, check_topic, visitor_of
from moldau.console.connection import Connection
from moldau.console.pages.connectors import connect_of
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.console.pages.secret_settings import QUEUE
from moldau.console.search.message import Message
from moldau.console.search.query import FROMS, MessageQuery, readable
from moldau.console.search.searches import SearchedPart
from moldau.deferred import dataclass
from moldau.link.metadata import Topic, TopicPartition
from moldau.operations.connectors import connector_path
from moldau.runtime import Clock

PREFIX: Final = "__connect.errors."
RECORDS_MAX: Final = 10_000
SPAN_MAX: Final = 20_000
"""How many offsets lie between ticked records at most."""
_POLL_S: Final = 0.5
_PICK: Final = "pick:"
_RANGE: Final = "range:"
_TRANSACTION_MS: Final = "120000"
_DIGITS_MAX: Final = 18

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record of the queue as text, with the facts about its error."""

    message: Message
    facts: Mapping[str, str]

    @classmethod
    def of(cls, message: Message) -> DeadLetter:
        """Read the headers."""
        facts = {
            name.removeprefix(PREFIX): text
            for name, text in message.headers
            if name.startswith(PREFIX)
        }
        return cls(message, facts)

    @property
    def own_headers(self) -> list[tuple[str, str]]:
        """The headers that the record had before."""
        return [each for each in self.message.headers if not each[0].startswith(PREFIX)]


@dataclass(frozen=True, slots=True)
class Choice:
    """What a form has chosen of the queue: parts of its partitions, start inclusive and end
    exclusive, and of these all records or some. `to` is the topic for all of them, if one is given.
    """

    ranges: Mapping[int, tuple[int, int]]
    picks: frozenset[tuple[int, int]] | None = None
    to: str = ""
    keeps_times: bool = False

    @classmethod
    def picked(cls, form: Mapping[str, str]) -> Choice:
        """Return the records with ticked boxes. Raise BadForm if there is none."""
        picks = set()
        for name in form:
            place, _, offset = name.removeprefix(_PICK).partition(":")
            if name.startswith(_PICK) and _are_numbers(place, offset):
                picks.add((int(place), int(offset)))
        if not picks:
            raise BadForm("choose at least one record: tick its box")
        ranges: dict[int, tuple[int, int]] = {}
        for partition, at in picks:
            begin, end = ranges.get(partition, (at, at + 1))
            ranges[partition] = (min(begin, at), max(end, at + 1))
        if _count(ranges) > SPAN_MAX:
            raise BadForm(
                f"the ticked records are too far apart: replay those within {SPAN_MAX} offsets"
            )
        return cls(ranges, frozenset(picks), *_aims(form))

    @classmethod
    def ranged(cls, form: Mapping[str, str]) -> Choice:
        """Return the parts that a preview has shown. Raise BadForm if there are none."""
        ranges = {}
        for name, text in form.items():
            place, (begin, _, end) = name.removeprefix(_RANGE), text.partition("-")
            if name.startswith(_RANGE) and _are_numbers(place, begin, end):
                ranges[int(place)] = (int(begin), int(end))
        if not ranges:
            raise BadForm("there is nothing to replay")
        if _count(ranges) > RECORDS_MAX:
            raise BadForm(f"a replay has {RECORDS_MAX} records at most: look at the preview again")
        return cls(ranges, None, *_aims(form))

    def has(self, partition: int, offset: int) -> bool:
        """Whether a record is chosen."""
        begin, end = self.ranges.get(partition, (0, 0))
        is_picked = self.picks is None or (partition, offset) in self.picks
        return begin <= offset < end and is_picked

    def fields(self) -> dict[str, str]:
        """Return the fields by which a form chooses the same."""
        if self.picks is not None:
            return {f"{_PICK}{partition}:{offset}": "1" for partition, offset in sorted(self.picks)}
        return {f"{_RANGE}{each}": f"{begin}-{end}" for each, (begin, end) in self.ranges.items()}


@dataclass(slots=True)
class Plan:
    """What a replay sends: how many records to which topics."""

    choice: Choice
    targets: Counter[str] = field(default_factory=Counter)
    of_others: int = 0
    """Records of other connectors with the same queue, which are left out."""
    lost: int = 0
    """Records that do not say where they came from; nothing is sent while there are some."""
    is_cut: bool = False
    """Whether there are more than RECORDS_MAX."""

    @property
    def count(self) -> int:
        """How many records are sent."""
        return sum(self.targets.values())


@dataclass(frozen=True, slots=True)
class Queue:
    """The dead letter topic of one connector, and where records without headers came from."""

    connector: str
    topic: Topic
    otherwise: str

    @property
    def group(self) -> str:
        """The group with the offsets of what was replayed; also the transactional id of replays."""
        return f"connect-dlq-replay-{self.connector}"

    def is_of_another(self, facts: Mapping[str, str]) -> bool:
        """Whether another connector has written the record."""
        return facts.get("connector.name", self.connector) != self.connector

    def target(self, facts: Mapping[str, str], to: str) -> str:
        """Return the topic that a record is replayed to; empty if it is not known."""
        return to or self.origin(facts)

    def origin(self, facts: Mapping[str, str]) -> str:
        """Return the topic that a record came from; empty if it is not known."""
        return facts.get("topic", "") or self.otherwise


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of the queue as it is."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def facts(self) -> dict[str, str]:
        """Return the facts about its error."""
        return {
            name.removeprefix(PREFIX): (value or b"").decode("utf-8", "replace")
            for name, value in self.headers
            if name.startswith(PREFIX)
        }

    def own_headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers that it had before."""
        return [each for each in self.headers if not each[0].startswith(PREFIX)]


class DeadLetters:
    """The endpoints about dead letters."""

    def __init__(self, connection: Connection, renderer: Renderer, clock: Clock) -> None:
        self._connection = connection
        self._renderer = renderer
        self._clock = clock
        self._running: set[str] = set()
        """The connectors with a replay that runs."""

    async def list(self, request: Request) -> Response:
        """Dead letters from some point of the queue."""
        return await self._page(request, await self._queue(request), None, {})

    async def plan(self, request: Request) -> Response:
        """Show what a replay would send; send nothing."""
        queue, form = await self._queue(request), await form_of(request)
        if form.get("which") == "all":
            choice = Choice(await self._left(queue), None, *_aims(form))
        else:
            choice = Choice.picked(form)
        plan = await self._planned(request, queue, choice)
        return await self._page(request, queue, plan, form)

    async def replay(self, request: Request) -> Response:
        """Send what a preview has shown, and say how many records that were."""
        queue, form = await self._queue(request), await form_of(request)
        is_all = form.get("which") == "all"
        choice = Choice.ranged(form) if is_all else Choice.picked(form)
        if queue.connector in self._running:
            raise BadForm(f"a replay of {queue.connector} runs: look at the preview after its end")
        self._running.add(queue.connector)
        try:
            if is_all:
                await self._check_left(queue, choice)
            plan = await self._planned(request, queue, choice)
            if plan.lost or not plan.count:
                raise BadForm("nothing can be replayed: look at the preview again")
            await self._send(queue, choice, is_all=is_all)
        except TransactionError as error:
            if not error.is_fenced:
                raise
            raise BadForm(
                f"another replay of {queue.connector} has begun meanwhile, or this one took too "
                "long, so it has sent nothing: look at the preview again"
            ) from error
        finally:
            self._running.discard(queue.connector)
        request.state.form = {**form, "replayed": str(plan.count)}  # for the audit log
        path = f"/dead-letters/{quote(queue.connector, safe='')}"
        return see(f"{path}?{urlencode({'replayed': plan.count})}")

    async def _page(
        self, request: Request, queue: Queue, plan: Plan | None, form: Mapping[str, str]
    ) -> Response:
        topic = queue.topic
        query = {} if plan is not None else dict(request.query_params)
        wanted = MessageQuery.of(query)
        mask = visitor_of(request).mask(topic.name)
        indexes, leaderless = readable(topic, wanted.partition)
        part = SearchedPart(topic.name, indexes, wanted, mask)
        found = await self._connection.searches.page(part)
        replayed = request.query_params.get("replayed", "")
        return self._renderer.page(
            request,
            "dead_letters.html",
            queue=queue,
            base=f"/dead-letters/{quote(queue.connector, safe='')}",
            found=found,
            leaderless=leaderless,
            letters=[DeadLetter.of(each) for each in found.messages],
            wanted=wanted,
            froms=FROMS,
            plan=plan,
            form=form,
            records_max=RECORDS_MAX,
            replayed=int(replayed) if replayed.isdecimal() and len(replayed) < 7 else None,
        )

    async def _queue(self, request: Request) -> Queue:
        """Return the queue of a connector. Raise BadForm if it has none."""
        name = request.path_params["name"]
        info = await connect_of(self._connection).ask("GET", connector_path(name))
        topic = str(info["config"].get(QUEUE, "")).strip()
        if not topic:
            raise BadForm(f"{name} has no dead letter topic: its setting {QUEUE} names one")
        check_topic(request, topic)
        read_by = [each.strip() for each in str(info["config"].get("topics", "")).split(",")]
        otherwise = read_by[0] if len(read_by) == 1 else ""
        return Queue(name, await self._connection.topic(topic), otherwise)

    async def _left(
        self, queue: Queue, upto: Mapping[int, tuple[int, int]] | None = None
    ) -> dict[int, tuple[int, int]]:
        """Return what was not replayed yet, up to the present ends, or to those of a preview."""
        topic = queue.topic
        places = [TopicPartition(topic.name, each.index) for each in topic.partitions]
        admin = await self._connection.admin()
        committed = await admin.group_offsets(queue.group, places, require_stable=True)
        async with self._connection.consumer() as consumer:
            begins = await consumer.beginning_offsets(places)
            ends = await consumer.end_offsets(places)
        ranges = {}
        left = RECORDS_MAX
        for where in places:
            known = committed.get(where)
            begin = max(begins[where], known.offset if known is not None else 0)
            end = min(ends[where], begin + left)
            if upto is not None:
                end = min(end, upto.get(where.partition, (0, 0))[1])
            if begin < end:
                ranges[where.partition] = (begin, end)
                left -= end - begin
        if not ranges:
            raise BadForm("all of them were replayed before: tick single ones to replay them again")
        return ranges

    async def _check_left(self, queue: Queue, choice: Choice) -> None:
        """Raise BadForm if some of the records that a preview has shown were replayed since."""
        if choice.ranges != await self._left(queue, choice.ranges):
            raise BadForm("some of these were replayed meanwhile: look at the preview again")

    async def _planned(self, request: Request, queue: Queue, choice: Choice) -> Plan:
        """Return the counts of a replay. Raise if a topic is not there, or not allowed."""
        plan = Plan(choice)
        moved: set[str] = set()
        async for letter in self._letters(queue, choice):
            facts = letter.facts()
            target = queue.target(facts, choice.to)
            if queue.is_of_another(facts):
                plan.of_others += 1
            elif not target:
                plan.lost += 1
            else:
                plan.targets[target] += 1
                if target != facts.get("topic"):
                    moved.add(target)
        for target in plan.targets:
            check_topic(request, target)
            if target in moved:
                check_masks(request, queue.topic.name, target)
            if target == queue.topic.name:
                raise BadForm(f"{target} is the dead letter topic itself: choose another one")
            await self._connection.topic(target)
        plan.is_cut = _count(choice.ranges) >= RECORDS_MAX
        return plan

    async def _letters(self, queue: Queue, choice: Choice) -> AsyncIterator[Letter]:
        """Yield the chosen records as they are."""
        name = queue.topic.name
        ends = {TopicPartition(name, at): end for at, (_, end) in choice.ranges.items()}
        async with self._connection.consumer() as consumer:
            consumer.assign(list(ends))
            last = await consumer.end_offsets(list(ends))
            for where in ends:
                consumer.seek(where, choice.ranges[where.partition][0])
            while True:
                left = [
                    where
                    for where, end in ends.items()
                    if (consumer.position(where) or 0) < min(end, last[where])
                ]
                if not left:
                    return
                for part in await consumer.poll(_POLL_S, max_records=500, partitions=left):
                    for each in part.records:
                        if choice.has(part.partition, each.offset):
                            yield Letter(
                                part.partition, each.offset, each.timestamp, each.key, each.value,
                                each.headers,
                            )  # fmt: skip

    async def _send(self, queue: Queue, choice: Choice, *, is_all: bool) -> None:
        """Send the chosen records, and store how far the queue is replayed, in one transaction."""
        settings = {
            "transactional.id": queue.group,
            "transaction.timeout.ms": _TRANSACTION_MS,
        }
        widths: dict[str, int] = {}
        async with self._connection.producer(settings) as producer, producer.transaction():
            if is_all:  # once more: now no other replay can store offsets unnoticed
                await self._check_left(queue, choice)
            async for letter in self._letters(queue, choice):
                facts = letter.facts()
                if queue.is_of_another(facts):
                    continue
                target = queue.target(facts, choice.to)
                is_timed = choice.keeps_times and letter.timestamp_ms >= 0
                if target not in widths:
                    widths[target] = len((await self._connection.topic(target)).partitions)
                await producer.send(
                    target,
                    letter.value,
                    key=letter.key,
                    headers=letter.own_headers(),
                    partition=_partition(facts, target, widths[target]),
                    timestamp_ms=letter.timestamp_ms if is_timed else None,
                )
            if is_all:
                name = queue.topic.name
                offsets = {TopicPartition(name, at): end for at, (_, end) in choice.ranges.items()}
                await producer.send_offsets(offsets, GroupMetadata(queue.group, -1, "", None))


def _are_numbers(*texts: str) -> bool:
    return all(each.isdecimal() and len(each) <= _DIGITS_MAX for each in texts)


def _count(ranges: Mapping[int, tuple[int, int]]) -> int:
    return sum(max(0, end - begin) for begin, end in ranges.values())


def _aims(form: Mapping[str, str]) -> tuple[str, bool]:
    """Return the topic for all records, if one is given, and whether they keep their times."""
    return form.get("to", "").strip(), form.get("times") == "1"


def _partition(facts: Mapping[str, Any], target: str, count: int) -> int | None:
    """Return the partition that a record came from, if it goes back to its topic; None for that of
    its key."""
    text = facts.get("partition", "")
    if facts.get("topic") != target or not text.isdecimal() or int(text) >= count:
        return None
    return int(text)
