"""What a worker reads and asks with the client, and its membership; a committer writes.

Invariant: a rebalance calls its listener inside `poll`, so that no partition is taken away while
records are processed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Final, NamedTuple

from moldau.client import (
    EARLIEST,
    LATEST,
    Admin,
    Deliveries,
    KafkaError,
    NewTopic,
    Producer,
    RebalanceListener,
    Resource,
    ResourceType,
    Topic,
)
from moldau.client import TopicPartition as TopicPartition
from moldau.client.group.descriptions import GroupDescription
from moldau.client.group.topology import GroupTopology
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout
from moldau.streams.engine.batches import Outputs
from moldau.streams.engine.spans import SendSpans
from moldau.streams.plan.topics import InternalTopic
from moldau.streams.worker.committer import LOG, AtLeastOnce, CommittedOffset, Committer
from moldau.streams.worker.exactly_once import ExactlyOnce, end_abandoned
from moldau.streams.worker.membership import (
    ClassicMembership,
    Membership,
    NameWatch,
    StreamsMembership,
)
from moldau.streams.worker.reader import RECORDS_MAX, Reader, fetched, fetched_columns
from moldau.streams.worker.reader import FetchedChunk as FetchedChunk
from moldau.streams.worker.settings import AppSettings, replication_factor

_READ_S: Final = 0.1
_ENDS_S: Final = 1.0
"""How long the worker waits for ends that it asks for."""
_COMMITTED_S: Final = 0.2
"""How long the worker waits for committed offsets that it can do without."""
_STANDBYS: Final = "streams.num.standby.replicas"
_PURGE_S: Final = 30.0
"""How long a worker waits for the deletion of records that it has processed."""

TopicNames = Callable[[], Awaitable[set[str]]]
PartitionListener = Callable[[Sequence[TopicPartition]], Awaitable[None]]


class TopicFacts(NamedTuple):
    """The partition count and the id of a topic, as the cluster reports them."""

    partitions: int
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class Rebalance(RebalanceListener):
    """The worker's callbacks for partitions that move."""

    assigned: PartitionListener
    revoked: PartitionListener
    lost: PartitionListener

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self.assigned(partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self.revoked(partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self.lost(partitions)


@asynccontextmanager
async def topic_names(settings: AppSettings, runtime: Runtime) -> AsyncIterator[TopicNames]:
    """Connect to the cluster, and yield a function that returns the names of all topics."""
    async with Admin(settings.of("admin"), runtime=runtime) as admin:

        async def names() -> set[str]:
            return {topic.name for topic in await admin.list_topics()}

        yield names


class Door:
    """A member's consumer, its committer, an admin, and readers of changelogs and global tables."""

    def __init__(self, settings: AppSettings, app: str, member: str, runtime: Runtime) -> None:
        """`member` is the worker's name, the same after a restart."""
        self.app = app
        self._member = member
        self._ends: dict[TopicPartition, int] = {}
        self._settled = -1
        self.has_inputs = True
        """Whether there is something to `poll`: an app may have global tables alone."""
        self._replication = settings.own[replication_factor]
        self.is_exactly_once = settings.is_exactly_once
        isolation = {"isolation.level": "read_committed"} if self.is_exactly_once else {}
        named = {} if settings.is_streams_group else {"group.instance.id": member}
        of_group = {
            "auto.offset.reset": "earliest",
            **named,
            "client.id": member,
            "max.poll.records": str(RECORDS_MAX),
            **settings.of_running("consumer"),
            **isolation,
            "group.id": app,
            "enable.auto.commit": "false",
            "allow.auto.create.topics": "false",
        }
        self.has_own_name = of_group.get("group.instance.id") == member
        """Whether the worker is in its group by the name that its state directory keeps."""
        self.is_static = bool(of_group.get("group.instance.id"))
        """Whether the group keeps the worker's tasks for it while it is away."""
        # Interceptors look at records, which columns do not make.
        self._has_interceptors = bool(of_group.get("interceptor.classes"))
        self._records_max = int(of_group["max.poll.records"])
        self.is_streams_group = settings.is_streams_group
        self.membership: Membership
        if self.is_streams_group:
            self.membership = StreamsMembership(of_group, member, settings, runtime)
        else:
            self.membership = ClassicMembership(of_group, settings.server, runtime)
        self.consumer = self.membership.consumer
        self.committer = self._committer(settings, member, runtime)
        if settings.tracer is not None:
            self.committer = TracedCommitter(self.committer, SendSpans(settings.tracer))
        self.names = NameWatch(member, self.membership.start)
        # It is started before the others.
        of_admin = {"client.id": member, **settings.patient("admin", is_first=True)}
        self.admin = Admin(of_admin, runtime=runtime)
        self._waits_s = int(settings.patient("consumer")["default.api.timeout.ms"]) / 1000
        # Changelogs hold what is aborted if the app has ever had exactly-once.
        of_changelogs = {
            "isolation.level": "read_committed",
            **settings.patient("restore.consumer"),
        }
        self.changelogs = Reader(of_changelogs, f"{member}-restore", runtime)
        self.standbys = Reader(
            of_changelogs, f"{member}-standby", runtime, auto_offset_reset="none"
        )
        of_globals = {**settings.patient("global.consumer"), **isolation}
        self.globals = Reader(of_globals, f"{member}-global", runtime)

    def _committer(self, settings: AppSettings, member: str, runtime: Runtime) -> Committer:
        given = {"client.id": member, **settings.patient("producer")}
        if not settings.is_exactly_once:
            return AtLeastOnce(Producer(given, runtime=runtime), self.consumer, self.topics)
        within = {"transaction.timeout.ms": str(settings.transaction_timeout_ms)}
        of_transactions = {**given, **within, "transactional.id": member}
        make = partial(Producer, of_transactions, runtime=runtime)
        return ExactlyOnce(make, self.consumer, self.topics, runtime, self.membership.lost)

    async def start(self) -> None:
        """Connect. If that fails, close everything again."""
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self.aclose)
            await self.admin.start()
            await self.committer.start()
            await self.consumer.start()
            on_failure.pop_all()

    async def leave(self) -> None:
        """Leave the group, and deliver what was sent, or abort it."""
        async with AsyncExitStack() as left:
            left.push_async_callback(self.committer.aclose)
            # The member that the group has now may be another process with the same name.
            leaves: bool | None = not self.names.is_superseded
            if leaves and self.is_static and self.is_streams_group:
                leaves = None  # its tasks wait for it, until its session ends
            left.push_async_callback(self.consumer.aclose, leave_group=leaves)

    async def aclose(self) -> None:
        """Leave the group if that has not been done, and disconnect."""
        async with AsyncExitStack() as left:
            left.push_async_callback(self.admin.aclose)
            left.push_async_callback(self.changelogs.aclose)
            left.push_async_callback(self.standbys.aclose)
            left.push_async_callback(self.globals.aclose)
            left.push_async_callback(self.leave)

    # Topics

    async def topics(self, names: Iterable[str]) -> dict[str, TopicFacts]:
        """Return the facts of those topics that exist."""
        found = await self.admin.describe_topics(sorted(set(names)))
        facts = {}
        for name, topic in found.items():
            if isinstance(topic, Topic):
                facts[name] = TopicFacts(len(topic.partitions), topic.topic_id)
            elif topic.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise topic
        return facts

    async def make(self, missing: Sequence[InternalTopic]) -> None:
        """Create these topics."""
        made = await self.admin.create_topics(
            NewTopic(each.name, each.partitions, self._replication, each.configs)
            for each in missing
        )
        for result in made.values():
            # Another worker of the app may have created it first.
            if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise result

    async def ends(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset of each partition, and the offset after its last record, be it
        in an open transaction."""
        begins = await self.admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await self.admin.list_offsets(dict.fromkeys(partitions, LATEST))
        return {where: (begins[where].offset, ends[where].offset) for where in ends}

    async def without_open_transactions(
        self, partitions: Sequence[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Return those partitions in which no transaction is open now."""
        if not partitions:
            return frozenset()
        wanted = dict.fromkeys(partitions, LATEST)
        ends = await self.admin.list_offsets(wanted)
        stable = await self.admin.list_offsets(wanted, is_committed=True)
        return frozenset(each for each in wanted if stable[each].offset >= ends[each].offset)

    async def end_abandoned(self, changelogs: Sequence[TopicPartition]) -> None:
        """Abort what workers that are gone have left open in the changelogs of tasks that come to
        this worker. If it cannot be done, the brokers do it in time."""
        if not self.committer.is_atomic or not changelogs:
            return
        is_done = await self.without_open_transactions(changelogs)
        left = [where for where in changelogs if where not in is_done]
        if not left:
            return
        try:
            await end_abandoned(self.admin, self.app, self._member, left)
        except KafkaError as error:
            LOG.info("streams: open transactions are left to the brokers: %s", error)

    async def last_values(
        self, where: TopicPartition, is_stopping: Callable[[], bool]
    ) -> dict[bytes | None, bytes | None] | None:
        """Return the value of the last record of each key in a partition, when the transactions
        that are open there now are decided; None if the worker stops before all are read."""
        begin, end = (await self.ends([where]))[where]
        found: dict[bytes | None, bytes | None] = {}
        if begin >= end:
            return found
        try:
            await self.changelogs.read_from({where: begin})
            while self.changelogs.position(where) < end:
                if is_stopping():
                    return None
                for fetched in await self.changelogs.read(_READ_S):
                    found |= zip(fetched.chunk.keys, fetched.chunk.values, strict=True)
        finally:
            await self.changelogs.aclose()
        return found

    async def has_records(self, where: TopicPartition) -> bool:
        """Whether a partition has records of transactions that are committed now."""
        begin = (await self.admin.list_offsets({where: EARLIEST}))[where].offset
        end = (await self.admin.list_offsets({where: LATEST}, is_committed=True))[where].offset
        if begin >= end:
            return False
        try:
            await self.changelogs.read_from({where: begin})
            while self.changelogs.position(where) < end:
                if any(len(each.chunk) for each in await self.changelogs.read(_READ_S)):
                    return True
        finally:
            await self.changelogs.aclose()
        return False

    async def purge(self, before: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets, if the partition's leader answers in time. If it
        does not, a later purge deletes them."""
        if not before:
            return
        try:
            async with timeout(_PURGE_S):
                await self.admin.delete_records(before)
        except TimeoutError:
            return
        except KafkaError as error:
            if not error.retriable:
                raise

    # Input

    async def subscribe(self, topics: Sequence[str], rebalance: Rebalance) -> None:
        """Join the group at the next poll, if there are topics to read."""
        self.has_inputs = bool(topics)
        if topics:
            await self.consumer.subscribe(topics, listener=rebalance)

    async def poll(self, timeout_s: float) -> list[FetchedChunk]:
        """Return records as soon as there are some, or none after `timeout_s`.

        Rebalances happen inside this call.
        """
        generation = self._generation()
        found = await self._polled(timeout_s)
        self._settled = generation
        if self.is_streams_group:
            self.names.on_epoch(self._generation())
        return found

    async def _polled(self, timeout_s: float) -> list[FetchedChunk]:
        if self._has_interceptors:
            return [fetched(each) for each in await self.consumer.poll(timeout_s)]
        batches = await self.consumer.poll_batches(timeout_s, max_records=self._records_max)
        return [fetched_columns(each) for each in batches]

    def _generation(self) -> int:
        """Return the member's generation in its group; -1 while it is not a member."""
        consumer = self.consumer
        return consumer.group_metadata().generation if consumer.member_id else -1

    async def end_app(self, within_s: float) -> None:
        """Ask all workers of the app to stop, and wait so long at most until they have heard it."""
        if not (self.has_inputs and self.membership.end_app()):
            return
        # What the worker has not committed counts no more, and its tasks stay closed.
        await self.consumer.subscribe(
            sorted(self.consumer.subscription), listener=RebalanceListener()
        )
        with suppress(TimeoutError, KafkaError):
            async with timeout(within_s):
                while not self.membership.is_app_ended:
                    await self._polled(_READ_S)

    @property
    def is_member(self) -> bool:
        """Whether the group has given this worker its share, which may be empty, and a poll has
        taken it over. Without inputs there is none to wait for."""
        if not self.has_inputs:
            return True
        generation = self._generation()
        return generation >= 0 and generation == self._settled

    def assigned(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group has assigned to this worker."""
        return frozenset(self.consumer.assignment)

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        self.consumer.pause(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Return records of these partitions again."""
        self.consumer.resume(partitions)

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Continue to read the partition at `offset`."""
        self.consumer.seek(where, offset)

    def lag(self, where: TopicPartition) -> int | None:
        """Return the number of offsets from the next record of `poll` to the end; None until a
        fetch or `learn_ends` has found the end."""
        found = self.consumer.lag(where)
        if found is not None:
            self._ends.pop(where, None)
            return found
        position = self.consumer.position(where)
        if position is None or where not in self._ends:
            return None
        return max(0, self._ends[where] - position)

    def at_end(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return those of which `poll` has returned all records. A partition whose leader does not
        answer is not among them: the known end is then that of the last answer."""
        found = {where for where in partitions if self.lag(where) == 0}
        return found.difference(self.consumer.troubles()) if found else found

    def forget_ends(self) -> None:
        """Forget the learned ends: after a rebalance they are out of date."""
        self._ends.clear()

    async def learn_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Request the ends of the partitions with an unknown lag.

        A fetch session that continues over a rebalance reports nothing of a partition where nothing
        has changed (KIP-227), so a task would wait forever for records of an input that has none.
        """
        unknown = [where for where in partitions if self.lag(where) is None]
        if unknown:
            # What is not known yet stays so, and the next turn asks again.
            try:
                with suppress(TimeoutError):
                    async with timeout(_ENDS_S):
                        self._ends.update(await self.consumer.end_offsets(unknown))
            except KafkaError as error:
                if not error.retriable:
                    raise

    async def committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Return the committed offsets and texts of those partitions that have some."""
        if not partitions:
            return {}
        found = await self.consumer.committed(partitions, timeout_s=self._waits_s)
        return {
            where: CommittedOffset(each.offset, each.metadata)
            for where, each in found.items()
            if each is not None
        }

    async def offset_texts(self) -> dict[TopicPartition, str]:
        """Return the texts of all offsets of the group, whatever transactions are open."""
        try:
            found = await self.admin.group_offsets(self.app)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return {}
            raise
        return {where: each.metadata or "" for where, each in found.items()}

    async def committed_soon(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset] | None:
        """Return what `committed` does if it is known at once, else None."""
        try:
            with suppress(TimeoutError):
                async with timeout(_COMMITTED_S):
                    return await self.committed(partitions)
        except KafkaError as error:
            if not error.retriable:
                raise
        return None

    async def group_topology(self) -> GroupTopology | None:
        """Return the topology that the streams group has; None if it has none."""
        group = await self.group()
        return None if group is None else group.topology

    async def group(self) -> GroupDescription | None:
        """Return the description of the app's group; None if the group does not exist."""
        try:
            return await self.admin.describe_group(self.app)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            raise

    async def has_members(self) -> bool:
        """Whether workers are in the app's group."""
        group = await self.group()
        return group is not None and bool(group.members)

    async def require_standbys(self, count: int) -> None:
        """Have the group keep `count` standbys of each task."""
        if count:
            group = Resource(ResourceType.GROUP, self.app)
            await self.admin.alter_configs(group, set_to={_STANDBYS: str(count)})


class TracedCommitter:
    """Changes of stores have no spans: no reader follows them but a restore."""

    def __init__(self, committer: Committer, spans: SendSpans) -> None:
        self._committer = committer
        self._spans = spans
        self.is_atomic = committer.is_atomic
        self.start = committer.start
        self.find = committer.find
        self.keep = committer.keep
        self.log = committer.log
        self.commit = committer.commit

    async def aclose(self) -> None:
        """Disconnect. What is not acknowledged is not known to be there."""
        try:
            await self._committer.aclose()
        finally:
            self._spans.end("the worker ended")

    async def send(self, outputs: Outputs) -> None:
        """Send the outputs, each record of a trace with a span."""
        self._spans.begin(outputs)
        await self._committer.send(outputs)

    async def written(
        self,
        logged: Mapping[TopicPartition, Deliveries],
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, int]:
        """Wait until all that was sent is acknowledged; its spans end with that."""
        is_written = False
        try:
            ends = await self._committer.written(logged, offsets)
            is_written = True
        finally:
            self._spans.end(None if is_written else "the outputs are not acknowledged")
        return ends

    async def revert(self) -> None:
        """Undo what was sent since the last commit."""
        await self._committer.revert()
        self._spans.end("the transaction was aborted")
