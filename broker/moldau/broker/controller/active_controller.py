"""The controller with its log: starts from it, decides, changes voters, and publishes committed
records.

Decisions are carried out by the `DecisionRuntime` (`moldau.broker.decision.runtime`): append,
replay, park, release. A decision without records also waits while older ones are uncommitted,
because it may depend on them.

Invariants: nothing uncommitted is answered or published. A controller serves one epoch of the
quorum, and the next epoch gets a new controller. After a disk failure, or a record that cannot be
replayed, the image is never trusted again: all waiting requests get NOT_CONTROLLER, `on_failure` is
called, and only a new start from the log brings the controller back.

The metadata log for the controller's decision runtime: a quorum that this node leads.

Invariant: after an append that the disk rejects the log is not trusted. `on_failure` is called, and
the next start reads the log again. Records that do not fit into one batch do not reach the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.controller.bootstrap import birth_records
from moldau.broker.controller.controller import Controller
from moldau.broker.controller.feature_updates import raised_kraft_version
from moldau.broker.controller.image import Image
from moldau.broker.controller.metadata_batches import encode_records, replay_batches
from moldau.broker.controller.outcome import DecisionInputs
from moldau.broker.controller.quorum_description import QuorumView, describe_quorum
from moldau.broker.decision.outcome import Outcome
from moldau.broker.decision.runtime import DecisionRuntime, Hooks
from moldau.broker.raft import voter_changes
from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord, Request, Response
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.describe_quorum import DescribeQuorumRequest
from moldau.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from moldau.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.protocol.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

if TYPE_CHECKING:
    from moldau.broker.controller.rules import Rules
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.decision.log import Append
    from moldau.broker.raft.quorum import Quorum
    from moldau.broker.raft.voter_changes import VoterChange
    from moldau.broker.raft.voters import Voters
    from moldau.protocol.declare import MetadataRecord
    from moldau.runtime import Runtime


class MetadataLog:
    """The metadata log as a `decision.log.DecisionLog`. Its records belong to no producer."""

    def __init__(
        self,
        quorum: Quorum,
        image: Image,
        wall_ms: Callable[[], int],
        on_appended: Callable[[], None],
        on_failure: Callable[[KafkaError], None],
    ) -> None:
        """`image` determines which versions of records the cluster knows. `on_appended` is called
        when the log has grown."""
        self._quorum = quorum
        self._image = image
        self._wall_ms = wall_ms
        self._on_appended = on_appended
        self._on_failure = on_failure

    @property
    def leader_epoch(self) -> int | None:
        return self._quorum.epoch if self._quorum.is_leading else None

    @property
    def end_offset(self) -> int:
        return self._quorum.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._quorum.high_watermark

    def is_level(self, leader_epoch: int) -> bool:
        return self.high_watermark >= self.end_offset and self.leader_epoch == leader_epoch

    def append(self, append: Append[MetadataRecord]) -> int:
        if append.leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        now_ms = self._wall_ms()
        version = self._image.features.metadata_version
        try:
            batch = encode_records(append.records, version, now_ms)
        except CorruptLog as error:
            reason, facts = error.reason, error.context
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason, **facts) from error
        try:
            last_offset = self._quorum.append(batch, now_ms)
        except KafkaError as error:
            self._on_failure(error)
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from error
        self._on_appended()
        return last_offset - len(append.records) + 1


OnAnswer: TypeAlias = Callable[[Response | KafkaError], None]
OnCommitted: TypeAlias = Callable[[Sequence[MetadataRecord], int], None]

_MAKING_LOGS: Final = (
    CreateTopicsRequest,
    CreatePartitionsRequest,
    AlterPartitionReassignmentsRequest,
)


VOTER_CHANGES: Final = (AddRaftVoterRequest, RemoveRaftVoterRequest, UpdateRaftVoterRequest)


def voter_answer(request: VoterChange, error: KafkaError | None) -> Response:
    """Return the response to a change of voters, with the error if there is one."""
    code = ErrorCode.NONE if error is None else error.code
    reason = None if error is None else error.reason or error.code.message
    if isinstance(request, AddRaftVoterRequest):
        return AddRaftVoterResponse(error_code=code, error_message=reason)
    if isinstance(request, RemoveRaftVoterRequest):
        return RemoveRaftVoterResponse(error_code=code, error_message=reason)
    return UpdateRaftVoterResponse(error_code=code)


@dataclass(frozen=True, slots=True)
class Observer:
    """The callbacks of the controller.

    - `on_committed` gets the records in order, each once, with the offset after the last.
    - `on_appended` is called when the log has grown. It must be flushed and sent to the other
      voters.
    - `on_failure` is called once, when the controller has stopped.
    - `on_voters` appends the new voters to the log. A KafkaError from it stops the controller.
    """

    on_committed: OnCommitted = field(default=lambda records, end_offset: None)
    on_appended: Callable[[], None] = field(default=lambda: None)
    on_failure: Callable[[Exception], None] = field(default=lambda error: None)
    on_voters: Callable[[Voters], None] = field(default=lambda voters: None)


def _as_answer(error: KafkaError) -> KafkaError:
    """Return the error that clients get for an error of the log."""
    is_lost = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    return KafkaError(ErrorCode.NOT_CONTROLLER) if is_lost else error


class Decider:
    """The state of the decision runtime. The controller has nothing to tidy up after a decision."""

    is_settled: Final = True

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    def settle(self, now_ms: int) -> None:
        """Return None: nothing is left to do."""


class ActiveController:
    """The controller of one epoch of the quorum, while this node leads it."""

    def __init__(
        self,
        runtime: Runtime,
        quorum: Quorum,
        rules: Rules,
        observer: Observer,
    ) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._observer = observer
        self.controller = Controller(rules, Image())
        self.failure: Exception | None = None
        self.epoch = quorum.epoch
        hooks: Hooks[MetadataRecord] = Hooks(
            replay=self._replay,
            as_answer=_as_answer,
            on_broken=self._on_broken,
            on_committed=self._publish,
        )
        clock = runtime.clock
        log = MetadataLog(
            quorum, self.controller.image, clock.wall_ms, observer.on_appended, self._fail
        )
        decider = Decider(self.controller)
        self._decisions = DecisionRuntime(decider, log, hooks, self.epoch, clock.monotonic_ns)

    def start(
        self, bootstrap: Sequence[MetadataRecord] = (), *, is_own_broker_up: bool = False
    ) -> None:
        """Start as leader: replay the log to its end, and append the first records of a new
        cluster, made from `bootstrap`. Later decisions depend on all of this. `is_own_broker_up`
        means that the broker in this process is registered already. Raise NOT_CONTROLLER if the log
        rejects the records."""
        image = self.controller.image
        replay_batches(image, self._quorum.batches())
        assert not image.is_in_transaction, "a decision is one batch, so no transaction stays open"
        records = tuple(birth_records(image, self.controller.rules, bootstrap))
        now_ms = self._monotonic_ms()
        self._decisions.perform(Outcome(records), now_ms)
        if self.failure is not None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from self.failure
        self.controller.take_over(now_ms, is_own_broker_up=is_own_broker_up)

    def request(self, request: Request, context: RequestContext, on_answer: OnAnswer) -> None:
        """Decide at once. `on_answer` is called after the commit, perhaps before this returns."""
        if self.failure is not None:
            on_answer(KafkaError(ErrorCode.NOT_CONTROLLER))
            return
        if isinstance(request, DescribeQuorumRequest):
            image = self.controller.image
            on_answer(describe_quorum(image, self._quorum_view(), request, context.version))
            return
        if isinstance(request, VOTER_CHANGES):
            self._change_voters(request, on_answer)
            return

        def decide(decider: Decider, now_ms: int) -> Outcome[MetadataRecord]:
            outcome = decider.controller.on_request(request, context, self._inputs(request))
            if isinstance(request, UpdateFeaturesRequest):
                self._raise_kraft_version(request, outcome.response)
            return Outcome(outcome.records, ((on_answer, outcome.response),))

        self._decisions.run(decide, on_answer, origin=context, name=type(request).__name__)

    def _change_voters(self, request: VoterChange, on_answer: OnAnswer) -> None:
        """Change the voters. They are part of the log itself and not of the image."""
        quorum = self._quorum
        try:
            voters = voter_changes.changed(self._voter_context(), request)
        except KafkaError as error:
            on_answer(voter_answer(request, error))
            return
        try:
            if voters != quorum.voters:
                self._observer.on_voters(voters)
        except KafkaError as error:
            self._fail(error)
            on_answer(KafkaError(ErrorCode.NOT_CONTROLLER))
            return
        answer = voter_answer(request, None)
        if isinstance(request, AddRaftVoterRequest) and not request.ack_when_committed:
            on_answer(answer)
            return
        self._decisions.perform(Outcome((), ((on_answer, answer),)), self._monotonic_ms())

    def _voter_context(self) -> voter_changes.VoterChangeContext:
        quorum = self._quorum
        return voter_changes.VoterChangeContext(
            self.controller.rules.cluster_id,
            quorum.voters,
            quorum.voters_end,
            quorum.leader,
            self._monotonic_ms(),
        )

    def _raise_kraft_version(self, request: UpdateFeaturesRequest, response: Response) -> None:
        """Write the voters into the log if the request raises kraft.version. What else it changes
        comes after that, so that its answer waits for both."""
        assert isinstance(response, UpdateFeaturesResponse)
        now = self._quorum.voters.kraft_version
        level = raised_kraft_version(request, response, now)
        if level is None:
            return
        voters = voter_changes.raised(self._voter_context(), level)
        try:
            self._observer.on_voters(voters)
        except KafkaError as error:
            self._fail(error)
            raise KafkaError(ErrorCode.NOT_CONTROLLER) from error

    def tick(self) -> None:
        """Fence silent brokers, and do periodic work. Call it about once a second."""
        self._decisions.each(self._overdue)

    def _overdue(self, decider: Decider, now_ms: int) -> Iterator[Outcome[MetadataRecord]]:
        """Yield the outcomes that are due, one decision at a time, until the log rejects one."""
        while records := decider.controller.on_tick(self._inputs()):
            end_offset = self._quorum.log_end_offset
            yield Outcome(records)
            if self._quorum.log_end_offset == end_offset:
                return

    def on_broker_gone(self, broker_id: int, broker_epoch: int) -> None:
        """Fence a broker whose process has ended, before its session ends."""
        broker = self.controller.image.brokers.by_id.get(broker_id)
        if broker is not None and broker.broker_epoch == broker_epoch:
            self.controller.liveness.forget(broker_id)
            self.tick()

    def resign(self) -> None:
        """Stop, because another node leads or this one ends. Parked requests are answered with
        NOT_CONTROLLER, although their records may be in the log."""
        if self.failure is None:
            self.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "the controller resigned")
        self._decisions.close(ErrorCode.NOT_CONTROLLER)

    def on_committed(self) -> None:
        """React to a higher high watermark of the quorum."""
        self._decisions.on_commit()

    def _publish(self, records: tuple[MetadataRecord, ...], end_offset: int) -> None:
        try:
            self._observer.on_committed(records, end_offset)
        except KafkaError as error:
            self._fail(error)

    def _quorum_view(self) -> QuorumView:
        quorum = self._quorum
        leader = quorum.leader
        return QuorumView(
            leader_id=self.controller.rules.node_id,
            leader_epoch=quorum.epoch,
            # As in Kafka, unknown at first: a majority has not confirmed this leader's log yet.
            high_watermark=-1 if leader.high_watermark is None else leader.high_watermark,
            log_end_offset=quorum.log_end_offset,
            voters=quorum.voters,
            now_ms=self._runtime.clock.wall_ms(),
            monotonic_ms=self._monotonic_ms(),
            progress=dict(leader.voters),
            observers=dict(leader.observers),
        )

    def _inputs(self, request: Request | None = None) -> DecisionInputs:
        makes_logs = isinstance(request, _MAKING_LOGS)
        return DecisionInputs(
            self._monotonic_ms(),
            self._quorum.log_end_offset,
            self._runtime.random,
            self._runtime.files.open_files() if makes_logs else None,
            self._quorum.voters.kraft_version,
            lambda level: voter_changes.raised(self._voter_context(), level),
            self._runtime.clock.wall_ms(),
        )

    def _monotonic_ms(self) -> int:
        """Return monotonic time, because a change of the wall clock must not end sessions."""
        return self._runtime.clock.monotonic_ns() // 1_000_000

    def _replay(self, offset: int, append: Append[MetadataRecord], now_ms: int) -> None:
        self.controller.image.replay_all(append.records)

    def _on_broken(self, name: str) -> None:
        self._fail(AssertionError(f"the image does not follow its own log, after {name}"))

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            self._decisions.close(ErrorCode.NOT_CONTROLLER)
            self._observer.on_failure(error)
