"""A client's access to its cluster: connections by broker, fresh metadata, calls with retries.

Producer, consumer and admin call `connection(node)`, `leader(partition)` or `call(...)` here, and
report errors here (`note`), so that reconnecting, refreshing and waiting between attempts are
implemented once.

Invariants: at most one connection for each broker and lane (most requests share one lane; requests
that may wait at the broker for long have their own), and one attempt to make it; between two failed
attempts there is the reconnect backoff; at most one Metadata request is in flight, and a caller of
`refresh` gets the response to a request that was sent after its call; if no known broker can be
reached, or each address has another owner, the bootstrap servers are tried again
(KIP-899, KIP-1242). `aclose` ends all of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import field
from typing import Final, Protocol, TypeVar

from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError, error_from, may_work_later
from moldau.ids import Uuid
from moldau.link import settings as rows
from moldau.link.addresses import Address
from moldau.link.arguments import fits, seconds, str_of
from moldau.link.connection import Connection, ConnectionOptions, Identity, Untrusted
from moldau.link.connections import Connections
from moldau.link.lifetime import closed, wrong_loop, wrong_process
from moldau.link.login.sasl import LoginRefused
from moldau.link.login.token import GivenTokens
from moldau.link.metadata import NO_LEADER, Metadata, Topic, TopicPartition
from moldau.link.security import Security, security_of
from moldau.protocol.declare import Request, Response
from moldau.protocol.framing import MAX_FRAME_BYTES
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.timeouts import timeout

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R", bound=Response)

ANY_BROKER: Final = -1
CONTROLLER: Final = -2
_SOUGHT_S: Final = 300.0
_FRAME_SLACK_BYTES: Final = 1 << 20
_REFRESH_FIRST_MS_MIN: Final = 10
_TOPICS_BY_ID: Final = 12


class Attempt(Protocol[T_co]):
    """One attempt of a call that may be repeated."""

    def __call__(self) -> Awaitable[T_co]: ...


@dataclass(slots=True)
class _Refresh:
    """Callers that wait for metadata: `asked` for the request in flight, `waiting` for the next
    one."""

    task: asyncio.Task[None] | None = None
    again: bool = False
    failures: int = 0
    asked: list[asyncio.Future[None]] = field(default_factory=list)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Cluster:
    """A Kafka cluster from the view of one client."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        *,
        creates_topics: bool = False,
        answer_bytes_max: int = 0,
        tokens: GivenTokens | None = None,
        on_update: Callable[[], None] | None = None,
    ) -> None:
        """`creates_topics`: whether a metadata request may create an unknown topic.
        `answer_bytes_max`: the most that a response may contain, if it is more than usual.
        `tokens`: the source of OAuth tokens. `on_update` is called after new metadata."""
        self.runtime = runtime
        self.settings = settings
        self.metadata = Metadata()
        self._closing = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.is_forked = False
        """Whether it belongs to the parent of this process."""
        self.on_update = on_update
        self.backoff = Backoff(settings[rows.retry_backoff_ms], settings[rows.retry_backoff_max_ms])
        self._connections = Connections(
            runtime,
            _connection_options(settings, answer_bytes_max, security_of(settings, runtime, tokens)),
            Backoff(settings[rows.reconnect_backoff_ms], settings[rows.reconnect_backoff_max_ms]),
            directory=self if names_brokers(settings) else None,
        )
        self._connections.on_lost = self._lost
        self._bootstrap = rows.addresses(settings)
        self._creates_topics = creates_topics
        self.awaits_topics = False
        """Whether metadata of watched but missing topics are requested until they exist."""
        self.follows_pattern = False
        """Whether the watched topics are those that match a pattern: then a metadata request does
        not create a deleted one again."""
        self._only_looks = False
        self._topics: dict[str, None] = {}
        self._sought: dict[str, float] = {}
        """The watched topics that only `look_at` asks for, with the time of the last call."""
        self._ids: frozenset[Uuid] = frozenset()
        self.watches_all = False
        self._refresh = _Refresh()
        self._refresh_timer: asyncio.TimerHandle | None = None
        self.blind_for: KafkaError | None = None
        """The error of the last refresh; None if it succeeded."""
        self._hints = 0
        """The number of ended connections on which a request without a response was sent. A broker
        closes a connection to reject such a request: it may not lead the partition any more."""
        self._hints_taken = 0
        """The number of those connections that a later successful refresh has covered."""

    @property
    def may_be_misled(self) -> bool:
        """Whether a broker may have closed a connection because our metadata are out of date."""
        return self._hints > self._hints_taken

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called."""
        return self._closing.is_set()

    # Connections

    async def connection(self, node_id: int = ANY_BROKER) -> Connection:
        """Return a connection to that broker, to the controller that brokers name, or to any
        broker.

        Raise KafkaError if there is none at present; nothing is retried here.
        """
        self._check_open()
        if node_id == ANY_BROKER:
            return await self._any()
        if node_id == CONTROLLER:
            if self.metadata.controller_id not in self.metadata.brokers:
                await self.refresh()
            node_id = self.metadata.controller_id
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                "the cluster has no living broker of that id",
                broker=node_id,
                brokers=sorted(self.metadata.brokers),
            )
        return await self._connections.open(broker.address)

    async def connection_to(self, address: Address, lane: str) -> Connection:
        """Return a connection to an address that a broker named, on a lane of its own."""
        self._check_open()
        return await self._connections.open(address, lane)

    def hang_up(self, address: Address, lane: str) -> None:
        """Close the connection of that address and lane, if it is open."""
        self._connections.hang_up(address, lane)

    def ready_connection(self, node_id: int) -> Connection | None:
        """Return the connection to that broker if it is already open."""
        broker = self.metadata.brokers.get(node_id)
        return None if broker is None else self._connections.ready(broker.address)

    def ready_connections(self) -> dict[int, Connection]:
        """Return the open connections to brokers, by node."""
        return self._connections.ready_among(self.metadata.brokers.values())

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def _any(self) -> Connection:
        """Return the least busy of the open connections, or the first that can be made."""
        standing = self._connections.standing()
        if standing:
            return min(standing, key=lambda each: each.in_flight)
        known = [each.address for each in self.metadata.brokers.values()]
        self.runtime.random.shuffle(known)
        known.sort(key=self._connections.is_resting)  # a broker that was just lost comes last
        bootstrap = list(self._bootstrap)
        self.runtime.random.shuffle(bootstrap)
        problems: dict[str, str] = {}
        refused: KafkaError | None = None
        for address in dict.fromkeys((*known, *bootstrap)):
            try:
                return await self._connections.open(address)
            except KafkaError as error:
                self._check_open()
                if isinstance(error, LoginRefused | Untrusted):
                    refused = refused or without_frames(error)
                why = error.context.get("why")
                reason = error.reason.removesuffix(".")
                problems[str(address)] = f"{reason}: {why}" if why else reason
        if refused is not None:
            raise refused
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            "no broker can be reached: is the address right, and does the cluster run?",
            tried=problems,
            setting=rows.bootstrap_servers.name,
        )

    def identity_of(self, address: Address) -> Identity | None:
        """Return the broker that the metadata have at the address. It must be the one that answers
        there (KIP-1242): an address can be given to a broker of another cluster. None if no broker
        has the address, or several have it, as behind a load balancer."""
        cluster_id, brokers = self.metadata.cluster_id, self.metadata.brokers.values()
        found = [each.node_id for each in brokers if each.address == address]
        if cluster_id is None or len(found) != 1:
            return None
        return Identity(cluster_id, found[0])

    def on_misrouted(self, address: Address, identity: Identity) -> None:
        """Forget a broker whose address has another owner, and request metadata: from the brokers
        that are left, and without any from the bootstrap servers. Kafka's clients forget all
        brokers, also those that are connected and were asked whether they are the right ones."""
        if self.identity_of(address) == identity and not self.is_closed:
            self.metadata.forget_broker(identity.node_id)
            self.request_refresh()

    def _lost(self, connection: Connection) -> None:
        if self.is_closed:
            return
        if connection.has_told:
            self._hints += 1
            self.request_refresh()
        elif not connection.is_closed_here and (self._topics or self.watches_all):
            self.request_refresh()  # what the broker led may have another leader

    # Metadata

    def watch(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh from now on. Reject a name that is too long for a
        message, as a broker rejects an invalid name."""
        names = [str_of(each, "a topic's name") for each in topics]
        self._topics |= dict.fromkeys(names)
        for each in names:
            self._sought.pop(each, None)

    def look_at(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics fresh as long as callers use them. A topic that was not
        used for five minutes is dropped again: a refresh costs the broker a response every few
        minutes, and may create a topic that does not exist."""
        now = self.runtime.clock.monotonic()
        for each in topics:
            if str_of(each, "a topic's name") not in self._topics or each in self._sought:
                self._topics[each] = None
                self._sought[each] = now

    def _forget_the_sought(self) -> None:
        idle_since = self.runtime.clock.monotonic() - _SOUGHT_S
        self.unwatch([name for name, sought_at in self._sought.items() if sought_at <= idle_since])

    def look_for(self, ids: frozenset[Uuid]) -> None:
        """Also request the topics with these ids in the next refresh."""
        self._ids = ids

    def unwatch(self, topics: Iterable[str]) -> None:
        """Stop requesting the metadata of these topics, and forget it."""
        for topic in topics:
            self._topics.pop(topic, None)
            self._sought.pop(topic, None)
            self.metadata.forget(topic)
            self.metadata.refused.pop(topic, None)

    def request_refresh(self) -> None:
        """Request metadata soon, because some are out of date, and again until it succeeds."""
        if self.is_closed:
            return
        self._refresh.again = True
        if self._refresh.task is None:
            self._begin_refreshing()

    def _begin_refreshing(self) -> None:
        self._refresh.task = self.runtime.spawn(
            self._refresh_until_fresh(), name="refresh metadata"
        )
        self._refresh.task.add_done_callback(self._refreshing_ended)

    async def refresh(self) -> None:
        """Wait for metadata that are requested after this call. Raise KafkaError if it fails."""
        self._check_open()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refresh.waiting.append(future)
        self.request_refresh()
        await future

    @property
    def is_refreshing(self) -> bool:
        """Whether metadata are being requested."""
        return self._refresh.task is not None

    async def _refresh_until_fresh(self) -> None:
        state = self._refresh
        while state.again and not self.is_closed:
            state.again = False
            state.asked, state.waiting = state.waiting, []
            hints = self._hints
            error = self.blind_for = await self._ask_metadata()
            _settle(state.asked, error)
            if error is None:
                state.failures = 0
                self._hints_taken = hints
                continue
            state.failures += 1
            state.again = bool(self._topics) or bool(state.waiting)
            await self.pause(state.failures)

    def _refreshing_ended(self, task: asyncio.Task[None]) -> None:
        """End the wait of all callers, whatever ended the refresh, and request metadata again
        later: a bug that one response triggers must not leave the client with old metadata."""
        state = self._refresh
        state.task = None
        broken = None if task.cancelled() else task.exception()
        if self.is_closed or task.cancelled():
            _settle((*state.asked, *state.waiting), closed("client"))
        elif broken is not None:
            _settle(state.asked, broken)
            state.failures += 1
            wait_s = self.backoff.wait_s(state.failures, self.runtime.random)
            self._refresh_later(wait_s, self.request_refresh)
        elif state.again:
            self._begin_refreshing()
        else:
            self._plan_next_refresh()

    async def _ask_metadata(self) -> KafkaError | None:
        try:
            connection = await self._any()
            request = self._metadata_request(connection)
            timeout_ms = min(
                self.settings[rows.request_timeout_ms], self.settings[rows.default_api_timeout_ms]
            )
            response = await connection.request(
                request, MetadataResponse, timeout_s=timeout_ms / 1000
            )
        except KafkaError as error:
            return without_frames(error)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.metadata.forget_brokers()
            connection.close()
            return KafkaError(ErrorCode.REBOOTSTRAP_REQUIRED, broker=str(connection.address))
        self.metadata.update(response)
        if request.topics is None:
            self.metadata.keep_only(response, self._topics)
        for name in self._topics:
            if not fits(name):
                self.metadata.refused[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
        self._drop_connections_to_the_gone()
        if self.on_update is not None:
            self.on_update()
        return None

    def _metadata_request(self, connection: Connection) -> MetadataRequest:
        self._forget_the_sought()
        # Sorted, so that a simulation does not depend on hashes and repeats in every process.
        names = sorted(filter(fits, self._topics))
        topics = [MetadataRequestTopic(name=name) for name in names]
        if self._ids and connection.version_of(MetadataRequest) >= _TOPICS_BY_ID:
            topics += [MetadataRequestTopic(topic_id=each, name=None) for each in sorted(self._ids)]
        self._ids = frozenset()
        is_named = not self.watches_all and not self.follows_pattern
        creates = self._creates_topics and is_named and not self._only_looks
        self._only_looks = False
        return MetadataRequest(
            topics=None if self.watches_all else topics, allow_auto_topic_creation=creates
        )

    def _drop_connections_to_the_gone(self) -> None:
        """Close idle connections to brokers that left, and to mere bootstrap addresses."""
        self._connections.keep_only({each.address for each in self.metadata.brokers.values()})

    def _plan_next_refresh(self) -> None:
        age_ms = max(self.settings[rows.metadata_max_age_ms], _REFRESH_FIRST_MS_MIN)
        again = self.request_refresh
        awaited = self._topics.keys() - self._sought.keys() if self.awaits_topics else ()
        missing = map(self.metadata.refused.get, awaited)
        if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in missing:
            soon_ms = max(self.settings[rows.retry_backoff_max_ms], _REFRESH_FIRST_MS_MIN)
            if soon_ms < age_ms:
                age_ms, again = soon_ms, self._look_again
        self._refresh_later(age_ms / 1000, again)

    def _refresh_later(self, delay_s: float, again: Callable[[], None]) -> None:
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        self._refresh_timer = asyncio.get_running_loop().call_later(delay_s, again)

    def _look_again(self) -> None:
        """Check whether a missing topic exists now, without creating it: a topic that was deleted
        would come back at once."""
        self._only_looks = True
        self.request_refresh()

    async def topic(
        self, name: str, *, partition: int | None = None, timeout_s: float | None = None
    ) -> Topic:
        """Return the topic as soon as the cluster knows it, with that partition if it was added
        lately. Raise KafkaError with the reason after the time."""
        begun = self.runtime.clock.monotonic()
        found = await self._known_topic(name, timeout_s)
        if partition is None or partition < len(found.partitions):
            return found
        if timeout_s is not None:
            timeout_s = max(0.0, timeout_s - (self.runtime.clock.monotonic() - begun))
        try:
            await self.retry(self.refresh, timeout_s=timeout_s)
        except KafkaError as error:
            facts = {**error.context, "partition": partition, "partitions": len(found.partitions)}
            raise KafkaError(error.code, error.reason, **facts) from error
        return self.metadata.topics.get(name, found)

    async def _known_topic(self, name: str, timeout_s: float | None) -> Topic:
        self.look_at([name])
        known = self.metadata.topics.get(name)
        if known is not None:
            return known

        async def look() -> Topic:
            self.look_at([name])
            await self.refresh()
            found = self.metadata.topics.get(name)
            if found is None:
                raise error_from(
                    "Metadata",
                    self.metadata.refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    topic=name,
                )
            return found

        return await self.retry(look, timeout_s=timeout_s)

    async def leader(self, where: TopicPartition) -> int:
        """Return the broker that leads the partition. Raise KafkaError if it is unknown."""
        self.look_at([where.topic])
        self.metadata.check(where)
        leader = self.metadata.leader_of(where)
        if leader == NO_LEADER or leader not in self.metadata.brokers:
            await self.refresh()
            self.metadata.check(where)
            leader = self.metadata.leader_of(where)
        if leader == NO_LEADER:
            code = self.metadata.refused.get(where.topic, ErrorCode.LEADER_NOT_AVAILABLE)
            raise error_from("Metadata", code, topic=where.topic, partition=where.partition)
        return leader

    def note(self, error: KafkaError) -> None:
        """Refresh the metadata if an error in a response means that they may be out of date."""
        if error.code.refreshes_metadata or error.code is ErrorCode.NOT_CONTROLLER:
            self.request_refresh()

    # Calls

    async def call(
        self,
        request: Request,
        response: type[R],
        *,
        node_id: int = ANY_BROKER,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request to that broker once and return the response; errors as `connection`."""
        connection = await self.connection(node_id)
        try:
            return await connection.request(request, response, timeout_s=timeout_s)
        except KafkaError as error:
            self.note(error)
            raise

    async def retry(self, attempt: Attempt[T], *, timeout_s: float | None = None) -> T:
        """Repeat `attempt()` until it succeeds, fails for good, or the time is over.

        Then raise the last error with its own type, the number of attempts, the time, and the
        limit: the caller's, or the name of a setting. If the client is closed meanwhile, raise that
        error at once.
        """
        self._check_open()
        limit: dict[str, object] = {"setting": rows.default_api_timeout_ms.name}
        if timeout_s is None:
            timeout_s = self.settings[rows.default_api_timeout_ms] / 1000
        else:
            timeout_s = seconds(timeout_s, "timeout_s")
            limit = {"timeout_s": round(timeout_s, 3)}
        clock = self.runtime.clock
        start = clock.monotonic()
        failures = 0
        last: KafkaError | None = None
        try:
            async with timeout(timeout_s):
                while True:
                    try:
                        return await attempt()
                    except KafkaError as error:
                        if not may_work_later(error):
                            raise
                        last = without_frames(error)
                    failures += 1
                    if last.code.refreshes_metadata or last.code is ErrorCode.NOT_CONTROLLER:
                        self.request_refresh()
                    await self.pause(failures)
                    self._check_open()
        except TimeoutError:
            waited_s = round(clock.monotonic() - start, 3)
            if last is None:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "no answer came in time",
                    seconds=waited_s,
                    **limit,
                ) from None
            facts = {**limit, **last.context, "attempts": failures, "seconds": waited_s}
            raise KafkaError(last.code, last.reason, **facts) from None

    async def pause(self, failures: int) -> None:
        """Wait between two attempts, longer after more failures; end if the client is closed."""
        with suppress(TimeoutError):
            async with timeout(self.backoff.wait_s(failures, self.runtime.random)):
                await self._closing.wait()

    def check_loop(self) -> None:
        """Raise WrongLoop if an open client is used in another event loop than its own, and
        WrongProcess in a child of its process."""
        if self.is_forked and not self.is_closed:
            raise wrong_process("client", "make another one after the fork")
        try:
            is_own = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # outside a loop, as when a program reads results
            return
        if not (is_own or self.is_closed):
            raise wrong_loop(self._loop)

    def _check_open(self) -> None:
        self.check_loop()
        if self.is_closed:
            raise closed("client")

    def forked(self) -> None:
        """Leave the connections to the parent, in a child process."""
        self.is_forked = True
        self._connections.forked()

    async def aclose(self) -> None:
        """Close all connections; calls in flight fail. It may be called again, and then completes a
        call that was cancelled."""
        self._closing.set()
        self._connections.refuse_more()
        if self._refresh_timer is not None:
            self._refresh_timer.cancel()
        _settle((*self._refresh.asked, *self._refresh.waiting), closed("client"))
        refreshing = self._refresh.task
        if refreshing is not None:
            refreshing.cancel()
            await asyncio.wait([refreshing])
        await self._connections.aclose()


def names_brokers(settings: Settings) -> bool:
    """Whether brokers are told which one of which cluster is meant."""
    recovers = settings[rows.metadata_recovery_strategy].lower() != "none"
    return recovers and settings[rows.metadata_cluster_check_enable]


def _settle(waiting: Iterable[asyncio.Future[None]], error: BaseException | None) -> None:
    for future in waiting:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(without_frames(error))


def _connection_options(
    settings: Settings, answer_bytes_max: int, security: Security | None
) -> ConnectionOptions:
    setup_ms = min(
        settings[rows.connection_setup_timeout_ms], settings[rows.default_api_timeout_ms]
    )
    return ConnectionOptions(
        client_id=settings[rows.client_id],
        request_timeout_s=settings[rows.request_timeout_ms] / 1000,
        setup_timeout_s=setup_ms / 1000,
        frame_bytes_max=max(MAX_FRAME_BYTES, answer_bytes_max + _FRAME_SLACK_BYTES),
        security=security,
    )
