"""A running replica of the metadata log: its core, its files, its peers and its timer.

Order after every event: save epoch and vote, write the first record of an epoch that was won, send.
A follower makes fetched records durable before it fetches again: the offset of its next fetch
confirms them.

Invariant: nothing about protocol state is decided here; what to do is in `Ready` and
`FetchOutcome`. A disk failure ends the replica: `Hooks.on_failure` is called, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.raft import wire
from moldau.broker.raft.flushing import Flusher
from moldau.broker.raft.messages import (
    BeginEpoch,
    EndEpoch,
    EpochAnswer,
    FetchAsk,
    FetchVerdict,
    PeerRequest,
    VoteAsk,
)
from moldau.broker.raft.notices import Notices
from moldau.broker.raft.quorum import Quorum
from moldau.broker.raft.replica import NEVER, AfterFetch, FetchOutcome, RaftReplica
from moldau.broker.raft.snapshots import SnapshotId
from moldau.broker.raft.snapshotting import SnapshotKeeper
from moldau.deferred import dataclass
from moldau.errors import BadData, CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging.gathering import GatheredWarnings
from moldau.protocol.declare import Response
from moldau.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

if TYPE_CHECKING:
    from moldau.broker.raft.voters import Voters
    from moldau.link import Peers
    from moldau.logging import Logger
    from moldau.runtime import Runtime

OnResponse: TypeAlias = Callable[[Response], None]

LANE: Final = "metadata"
RESIGN_SECONDS: Final = 0.5
"""The time in which the other voters can react to a leader that resigns."""
WAIT_MS_MAX: Final = 500
_ENDPOINTS_SINCE: Final = 16
"""The longest wait of a fetch for news. Its answer shows each side that the other one is alive."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The callbacks of the replica. They are called on the event loop, after the event."""

    on_leading: Callable[[], None]
    """Called when this replica leads, and the first record of its epoch is in the log."""
    on_resigned: Callable[[], None]
    """Called when it does not lead any more."""
    on_committed: Callable[[], None]
    """Called when the high watermark has moved."""
    on_snapshot: Callable[[], None]
    """Called when a snapshot of the leader has replaced the log."""
    on_failure: Callable[[Exception], None]
    on_voters: Callable[[], None] = lambda: None
    """Called when the log names other voters, or other addresses of them."""


@dataclass(frozen=True, slots=True)
class RaftSettings:
    """The settings that the replica uses."""

    cluster_id: str
    listener: str
    """The listener of other controllers that this node connects to."""
    request_timeout_s: float
    retry_s: float
    fetch_bytes_max: int
    snapshot_bytes_max: int


@dataclass(frozen=True, slots=True)
class RaftServices:
    """The services that the replica uses."""

    runtime: Runtime
    peers: Callable[[], Peers]
    """Returns the connections to the other voters; a sole voter never calls it."""
    terms: RaftSettings
    log: Logger
    address_of: Callable[[int, str], tuple[str, int] | None] = lambda node_id, listener: None
    """Returns the address of a voter at a controllers' listener."""
    on_address: Callable[[int, str, int], None] = lambda node_id, host, port: None
    """Called with the address of the leader."""


_ADVICE: Final = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        "it is of another cluster; see that the controllers in the settings are of the cluster "
        "that meta.properties names"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "its user has no right to take part; name it in super.users of all controllers"
    ),
    ErrorCode.UNKNOWN_SERVER_ERROR: (
        "its log says why. Until the quorum has a leader, access rules are not read, and only "
        "super.users of the controllers may take part"
    ),
    ErrorCode.INVALID_VOTER_KEY: (
        "another node listens at its address; see that ids and addresses of the voters agree"
    ),
    ErrorCode.INCONSISTENT_VOTER_SET: (
        "it does not know this node as a voter; see that controller.quorum.voters is the same "
        "on all nodes"
    ),
}


class _Waiting:
    """A fetch that waits for news."""

    __slots__ = ("ask", "bytes_max", "high_watermark", "listener", "on_response", "timer")

    def __init__(
        self,
        ask: FetchAsk,
        listener: str | None,
        bytes_max: int,
        high_watermark: int,
        on_response: OnResponse,
    ) -> None:
        self.ask = ask
        self.listener = listener
        self.bytes_max = bytes_max
        self.high_watermark = high_watermark
        self.on_response = on_response
        self.timer: asyncio.TimerHandle | None = None


class RaftNode:
    """The shell of one replica; see the module. Call `start`, then `live` if it has peers."""

    def __init__(
        self, ground: RaftServices, quorum: Quorum, core: RaftReplica, hooks: Hooks
    ) -> None:
        runtime = ground.runtime
        self.quorum = quorum
        self.core = core
        self.failure: Exception | None = None
        self.flusher = Flusher(runtime, quorum, self._on_flushed, self._fail)
        self.snapshots = SnapshotKeeper(runtime, quorum)
        self.told_high_watermark = -1
        """The last high watermark of the leader, which this log may not have reached."""
        self._gathering = GatheredWarnings(ground.log, lines=1)
        self._notices = Notices(ground.log)
        self._voters = quorum.voters
        self._ground = ground
        self._runtime = runtime
        self._peers = ground.peers
        self._hooks = hooks
        self._terms = ground.terms
        self._log = ground.log
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        self._fetching: asyncio.Timeout | None = None
        """The wait for the leader's response, which a change of the leader or voters ends."""
        self._following: asyncio.Task[None] | None = None
        self._asking: dict[asyncio.Task[None], None] = {}
        self._waiting: dict[_Waiting, None] = {}
        self._is_wake_asked = False

    # Life.

    def start(self) -> None:
        """Start the replica. A sole voter leads when this returns."""
        self.core.start(self._now_ms())
        self._carry_out()
        self._notices.write_other_disk(self.core.member, self.quorum.voters)

    def live(self) -> None:
        """Begin to follow."""
        self._following = self._runtime.spawn(self._follow(), name="metadata-follow")

    async def aclose(self) -> None:
        """Resign and stop. No task and no timer is left. The owner closes the quorum."""
        if self.failure is None:
            self.core.resign(self._now_ms())
            self._carry_out()
            if self._asking:
                await asyncio.wait(self._asking, timeout=RESIGN_SECONDS)
        if self.failure is None:
            self.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "the replica was closed")
        if self._timer is not None:
            self._timer.cancel()
        for waiting in list(self._waiting):
            self._answer_waiting(waiting)
        tasks = [*self._asking, *([self._following] if self._following is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.snapshots.aclose()
        await self.flusher.idle()

    def on_appended(self) -> None:
        """Flush the leader's log, which has grown, and answer the fetches that wait for it."""
        self._wake_soon()
        self.flusher.flush_soon()

    def change_voters(self, voters: Voters) -> None:
        """Append other voters to the log while this replica leads. Committed like any record."""
        self.quorum.append_voters(voters, self._runtime.clock.wall_ms())
        self._learn_voters()
        self.on_appended()

    def _learn_voters(self) -> None:
        """Use the voters that the log names, committed or not."""
        voters = self.quorum.voters
        if voters == self._voters:
            return
        self._voters = voters
        self._log.info("the metadata quorum has other voters", voters=list(voters.ids))
        self._hooks.on_voters()
        has_advanced = self.core.on_voters(voters, self._now_ms())
        self._carry_out()
        self._notices.write_other_disk(self.core.member, voters)
        self._on_changed()
        if has_advanced:
            self.quorum.advance(self.quorum.high_watermark)
            self._on_advanced()

    def _resign_when_removed(self) -> None:
        """Resign once the change is committed that removed this leader from the voters."""
        core, quorum = self.core, self.quorum
        if core.leader is None or core.member.is_voter or self.failure is not None:
            return
        if quorum.voters_end <= quorum.high_watermark:
            core.resign(self._now_ms())
            self._carry_out()

    def _wake_soon(self) -> None:
        if self._waiting and not self._is_wake_asked:
            self._is_wake_asked = True
            self._loop.call_soon(self._wake)

    def _on_advanced(self) -> None:
        """Report the moved high watermark, also to the followers whose fetches wait."""
        self._wake_soon()
        self._hooks.on_committed()
        if not self.core.member.is_voter:
            self._loop.call_soon(self._resign_when_removed)

    def _on_flushed(self, has_advanced: bool) -> None:
        if has_advanced and self.failure is None:
            self._on_advanced()

    # After an event of the core.

    def _carry_out(self) -> None:
        if self.failure is not None:
            return
        core, quorum = self.core, self.quorum
        ready = core.take_ready()
        try:
            if ready.has_resigned:
                quorum.end_epoch()
                self._hooks.on_resigned()
            if ready.state is not None:
                quorum.save_state(ready.state)
            if ready.elected_by is not None and core.leader is not None:
                quorum.begin_epoch(core.leader, ready.elected_by, self._runtime.clock.wall_ms())
                self._hooks.on_leading()
            if ready.has_caught_up:
                quorum.end_empty_disk()
        except (OSError, KafkaError, BadData) as error:
            self._fail(error)
            return
        for peer, request in ready.requests:
            task = self._runtime.spawn(self._ask(peer, request), name=f"raft-{peer}")
            self._asking[task] = None
            task.add_done_callback(lambda done: self._asking.pop(done, None))
        for notice in ready.notices:
            self._notices.write(notice, self._runtime.clock.monotonic())
        if ready.soft is not None:
            self._on_changed()  # a voter that gave up an election follows the same leader again
        if ready.has_new_leader:
            self._on_new_leader()
        self._set_timer()

    def _on_new_leader(self) -> None:
        """Answer the waiting fetches: there is another leader, or another epoch."""
        for waiting in list(self._waiting):
            self._answer_waiting(waiting)
        core = self.core
        is_alone = self._voters.ids == (core.member.node_id,)
        write = self._log.debug if is_alone else self._log.info
        write(
            "the metadata quorum has another leader or epoch",
            epoch=core.epoch,
            leader=core.leader_id,
            role=core.role.name,
        )

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self.core.deadline_ms
        if due_ms < NEVER and self.failure is None:
            delay_s = max(0.0, (due_ms - self._now_ms()) / 1000)
            self._timer = self._loop.call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.core.on_tick(self._now_ms())
        self._carry_out()

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // 1_000_000

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            if self._timer is not None:
                self._timer.cancel()
            self._hooks.on_failure(error)

    # Requests to other voters.

    async def _ask(self, peer: int, asked: PeerRequest) -> None:
        me = self.quorum.voters.find(self.core.member.node_id)
        endpoints = () if me is None else me.endpoints
        request, response_class = wire.request_of(self._terms.cluster_id, peer, asked, endpoints)
        try:
            response = await self._peers().request(
                peer, request, response_class, timeout_s=self._terms.request_timeout_s
            )
            answer = wire.answer_of(response)
            epoch_answer = answer if isinstance(answer, EpochAnswer) else answer.epoch_answer
            if epoch_answer.error in _ADVICE:
                self._report_refused(peer, KafkaError(epoch_answer.error))
        except KafkaError as error:
            self._report_refused(peer, error)
            self._log.debug("a voter does not answer", voter=peer, why=str(error))
            if self.failure is None:
                self.core.on_peer_failed(peer, asked, self._now_ms())
                self._carry_out()
            return
        if self.failure is None:
            self.core.on_peer_answer(peer, asked, answer, self._now_ms())
            self._carry_out()

    def _report_refused(self, peer: int, error: KafkaError) -> None:
        """Log an error that does not pass by itself, with advice."""
        advice = _ADVICE.get(error.code)
        if advice is not None:
            now_s = self._runtime.clock.monotonic()
            self._gathering.warn(f"a controller refuses this node: {advice}", now_s, peer=peer)

    # Following.

    async def _follow(self) -> None:
        while self.failure is None:
            asked = self.core.next_fetch()
            self._changed.clear()
            if asked is None:
                await self._changed.wait()
                continue
            source, ask = asked
            response = await self._fetch(source, ask)
            if response is None:
                await self._pause()
                continue
            try:
                for at in response.node_endpoints:
                    self._ground.on_address(at.node_id, at.host, at.port)
                verdict, records = wire.fetched_of(response)
                await self._on_fetched(source, ask, verdict, records)
            except KafkaError as error:
                if self.quorum.log.failure is not None:
                    self._fail(error)
                    return
                self._report_refused(source, error)
                self._log.debug("a fetch of metadata failed", leader=source, why=str(error))
                await self._pause()
            except (OSError, BadData) as error:
                self._fail(error)
                return

    async def _fetch(self, source: int, ask: FetchAsk) -> FetchResponse | None:
        """Fetch and return the response; None if there is none, or if the leader has changed."""
        terms = self._terms
        bounds = WAIT_MS_MAX, terms.fetch_bytes_max
        request = wire.fetch_request(terms.cluster_id, ask, bounds)
        asking = self._peers().request(
            source, request, FetchResponse, lane=LANE, timeout_s=terms.request_timeout_s
        )
        try:
            try:
                async with asyncio.timeout(None) as self._fetching:
                    return await asking
            finally:
                self._fetching = None
        except TimeoutError:  # the leader or the voters have changed
            return None
        except KafkaError as error:
            self._log.debug("the leader of the metadata quorum does not answer", why=str(error))
            if error.code == ErrorCode.NETWORK_EXCEPTION:
                self.core.on_leader_lost(self._now_ms())
                self._carry_out()
            return None

    def _on_changed(self) -> None:
        """End the wait for a response, or a pause: the leader or the voters have changed."""
        self._changed.set()
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            fetching.reschedule(self._loop.time())

    async def _pause(self) -> None:
        """Wait before the next attempt, but not if the leader changes."""
        try:
            async with asyncio.timeout(self._terms.retry_s):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _on_fetched(
        self, source: int, ask: FetchAsk, verdict: FetchVerdict, records: object
    ) -> None:
        quorum, core = self.quorum, self.core
        if ask.offset != quorum.log_end_offset or ask.last_epoch != quorum.last_epoch:
            return
        outcome = core.on_fetched(source, ask, verdict, self._now_ms())
        self._carry_out()
        match outcome.action:
            case AfterFetch.NOTHING:
                await self._pause()
            case AfterFetch.TRUNCATE:
                self._log.info(
                    "cuts off metadata that the leader does not have",
                    leader=source,
                    offset=outcome.truncate_to,
                    log_end=quorum.log_end_offset,
                )
                quorum.truncate_to(outcome.truncate_to)
                self._learn_voters()
            case AfterFetch.LOAD_SNAPSHOT:
                assert outcome.snapshot is not None
                await self._load_snapshot(source, ask, outcome.snapshot)
            case AfterFetch.APPEND:
                await self._append(outcome, records)

    async def _append(self, outcome: FetchOutcome, records: object) -> None:
        quorum = self.quorum
        if records:
            assert isinstance(records, bytes | memoryview)
            quorum.append_as_follower(records, self._runtime.clock.wall_ms())
            self._learn_voters()
        self.told_high_watermark = outcome.high_watermark
        quorum.advance(outcome.high_watermark)
        self._hooks.on_committed()
        await self.flusher.flush()
        if self.core.has_empty_disk and self.failure is None:
            self.core.on_caught_up(quorum.log.flushed_end_offset, outcome.high_watermark)
            self._carry_out()

    async def _load_snapshot(self, source: int, ask: FetchAsk, snapshot_id: SnapshotId) -> None:
        """Read the leader's snapshot in pieces. Stop if the leader or the epoch changes."""
        data = bytearray()
        terms, core = self._terms, self.core
        while core.epoch == ask.epoch and self.failure is None:
            place = len(data), terms.snapshot_bytes_max
            request = wire.snapshot_request(terms.cluster_id, ask, snapshot_id, place)
            response = await self._peers().request(
                source,
                request,
                FetchSnapshotResponse,
                lane=LANE,
                timeout_s=terms.request_timeout_s,
            )
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
            row = response.topics[0].partitions[0]
            if row.error_code:
                raise KafkaError(ErrorCode(row.error_code))
            core.on_snapshot_read(self._now_ms())
            data += row.unaligned_records
            if len(data) >= row.size:
                await self.snapshots.store(snapshot_id, bytes(data))
                if core.epoch != ask.epoch or self.failure is not None:
                    return  # it holds committed records only, so it does no harm on the disk
                self.quorum.install_snapshot(snapshot_id)
                self._learn_voters()
                self._log.info("took a snapshot of the metadata", offset=snapshot_id.end_offset)
                self._hooks.on_snapshot()
                return
            if not len(row.unaligned_records):
                raise CorruptLog("a snapshot ends before its size", offset=snapshot_id.end_offset)

    # Requests of other nodes.

    def serve(self, request: wire.RaftRequest, on_response: OnResponse) -> None:
        """Serve a vote, or the begin or end of an epoch."""
        now_ms = self._now_ms()
        try:
            self._check_alive()
            asked = wire.asked_by(request, self._terms.cluster_id, self.core.member.node_id)
            if isinstance(asked, VoteAsk):
                response = wire.response_to(asked, self.core.on_vote_ask(asked, now_ms))
            elif isinstance(asked, BeginEpoch):
                answer = self.core.on_begin_epoch(asked, now_ms)
                response = wire.response_to(asked, answer)
                at = wire.leader_address(request, self._terms.listener)
                if at is not None and answer.error is ErrorCode.NONE:
                    self._ground.on_address(asked.leader_id, *at)
            else:
                assert isinstance(asked, EndEpoch)
                response = wire.response_to(asked, self.core.on_end_epoch(asked, now_ms))
            self._carry_out()
            self._check_alive()  # an answer that depends on unsaved state is not sent
        except KafkaError as error:
            response = wire.refusal_of(request, error)
        on_response(response)

    def _check_alive(self) -> None:
        if self.failure is not None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)

    def serve_fetch(
        self, request: FetchRequest, version: int, listener: str, on_response: OnResponse
    ) -> None:
        """Serve a replica's fetch that came through a listener; without news the answer waits."""
        try:
            self._check_alive()
            ask, row = wire.fetch_ask_of(request, version, self._terms.cluster_id)
        except KafkaError as error:
            on_response(FetchResponse(error_code=error.code, responses=[]))
            return
        verdict = self._judge(ask)
        bytes_max = min(row.partition_max_bytes, request.max_bytes)
        known_by = listener if version >= _ENDPOINTS_SINCE else None
        if self._is_news(ask, verdict) or request.max_wait_ms <= 0:
            on_response(self._response(ask, verdict, bytes_max, known_by))
            return
        waiting = _Waiting(ask, known_by, bytes_max, verdict.high_watermark, on_response)
        delay_s = min(request.max_wait_ms, WAIT_MS_MAX) / 1000
        waiting.timer = self._loop.call_later(delay_s, self._answer_waiting, waiting)
        self._waiting[waiting] = None

    def _judge(self, ask: FetchAsk) -> FetchVerdict:
        verdict, has_advanced = self.core.on_fetch(ask, self._now_ms())
        if has_advanced:
            self.quorum.advance(self.quorum.high_watermark)
            self._on_advanced()
        return verdict

    def _is_news(self, ask: FetchAsk, verdict: FetchVerdict) -> bool:
        """Whether the answer has news: records, a high watermark that the replica does not know, or
        anything unusual. A replica whose own fetch commits records learns only from the answer that
        they are committed."""
        is_usual = verdict.diverging is None and verdict.snapshot is None
        return (
            bool(verdict.epoch_answer.error)
            or not is_usual
            or ask.offset < self.quorum.log_end_offset
            or ask.high_watermark < verdict.high_watermark
        )

    def _response(
        self, ask: FetchAsk, verdict: FetchVerdict, bytes_max: int, listener: str | None
    ) -> Response:
        records: object = b""
        log = self.quorum.log
        is_whole = not verdict.epoch_answer.error and verdict.diverging is None
        if is_whole and verdict.snapshot is None:
            try:
                piece = log.read(ask.offset, bytes_max)
            except KafkaError as error:
                epoch_answer = EpochAnswer(error.code, self.core.epoch, self.core.leader_id)
                verdict = FetchVerdict(epoch_answer)
            else:
                records = piece if piece.size_bytes else b""
        leader_at = None
        if listener is not None:
            leader_at = self._ground.address_of(self.core.leader_id, listener)
        return wire.fetch_response(verdict, log.log_start_offset, records, leader_at)

    def _wake(self) -> None:
        self._is_wake_asked = False
        leader = self.core.leader
        known = -1 if leader is None or leader.high_watermark is None else leader.high_watermark
        end = self.quorum.log_end_offset
        for waiting in list(self._waiting):
            if waiting.ask.offset < end or waiting.high_watermark < known:
                self._answer_waiting(waiting)

    def _answer_waiting(self, waiting: _Waiting) -> None:
        if waiting not in self._waiting:
            return
        del self._waiting[waiting]
        if waiting.timer is not None:
            waiting.timer.cancel()
        ask = waiting.ask
        verdict = self.core.verdict_on(ask)
        waiting.on_response(self._response(ask, verdict, waiting.bytes_max, waiting.listener))

    def serve_snapshot(self, request: FetchSnapshotRequest, on_response: OnResponse) -> None:
        """Serve a piece of a snapshot to a replica whose log ends before this log begins."""
        try:
            self._check_alive()
            row = request.topics[0].partitions[0]
            asked = SnapshotId(row.snapshot_id.end_offset, row.snapshot_id.epoch)
            error = ErrorCode.NONE
            if self.core.leader is None:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif row.current_leader_epoch != self.core.epoch:
                error = ErrorCode.FENCED_LEADER_EPOCH
            elif asked not in self.quorum.snapshots:
                error = ErrorCode.SNAPSHOT_NOT_FOUND
            size, piece = 0, b""
            if not error:
                bytes_max = min(request.max_bytes, self._terms.snapshot_bytes_max)
                size, piece = self.quorum.read_snapshot_piece(asked, row.position, bytes_max)
        except (KafkaError, IndexError, OSError):
            code = ErrorCode.INVALID_REQUEST
            on_response(FetchSnapshotResponse(error_code=code, topics=[]))
            return
        epoch_answer = EpochAnswer(error, self.core.epoch, self.core.leader_id)
        on_response(wire.snapshot_response(epoch_answer, asked, size, (row.position, piece)))
