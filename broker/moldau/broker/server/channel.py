"""This node's controller: its part in the metadata quorum, and requests to the active controller.

The active controller is on the node that leads the quorum. A request to it is a call on that node,
and a request over the wire (`remote`) on all others.

Invariants:
* An outcome is committed before its caller receives it. If the active controller is on this node,
  it is also published to this node before.
* A request is answered once.
* Only committed records are published, in the order of the log, each once.
* A controller whose log failed gets no more requests. If this node is the only voter, another
  controller is opened from the log, which holds all that was acknowledged. If that fails, or if
  there are other voters, `on_end` gets the reason why the node cannot continue.
* After a failed sync `on_end` is called at once: the log then shows what is in memory, not what is
  on the disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.api.gate import check_decision, guard_decision
from moldau.broker.api.node import Undecided
from moldau.broker.controller.active_controller import ActiveController, Observer, OnAnswer
from moldau.broker.controller.metadata_batches import decode_records, snapshot_batches
from moldau.broker.controller.storage import read_bootstrap
from moldau.broker.decision.authorizer import ALLOW_ALL
from moldau.broker.decision.context import of_node
from moldau.broker.log.meta_properties import read_meta_properties
from moldau.broker.log.open_files import advice, may_pass
from moldau.broker.raft.messages import NOBODY
from moldau.broker.raft.node import Hooks, RaftNode, RaftServices
from moldau.broker.raft.quorum import Quorum
from moldau.broker.raft.replica import Member, RaftReplica
from moldau.broker.raft.voters import KRAFT_VERSIONS
from moldau.broker.server.voter_addresses import BOOTSTRAP_FROM, VoterAddresses
from moldau.deferred import dataclass
from moldau.errors import BadData, CorruptLog, MoldauError
from moldau.errors.codes import KafkaError
from moldau.ids import ZERO_UUID
from moldau.protocol.declare import MetadataRecord, Request, Response
from moldau.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.server.controller_config import ControllerConfig
    from moldau.broker.server.outside import Outside
    from moldau.logging import Logger
    from moldau.runtime import Runtime

OnRecords: TypeAlias = Callable[[Sequence[MetadataRecord], int], None]

CLEAN_INTERVAL_MS: Final = 60_000
_NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class Audience:
    """The callbacks of a controller. `on_image` gets all metadata: once when the controller is
    opened, and when a snapshot of the leader replaces the log. `on_records` gets the records that
    are committed after that. Each also gets the offset after the last record."""

    on_image: OnRecords
    on_records: OnRecords
    on_reopened: Callable[[], object]
    on_end: Callable[[Exception], object]
    image: Callable[[], Image]
    """Returns the image of all published metadata."""


class LocalController:
    """This node's controller. Satisfies `api.node.ControllerChannel`."""

    def __init__(
        self, runtime: Runtime, controller_config: ControllerConfig, audience: Audience, log: Logger
    ) -> None:
        self._runtime = runtime
        self.cluster_id = controller_config.terms.cluster_id
        self._controller_config = controller_config
        self._audience = audience
        self._log = log
        self._active: ActiveController | None = None
        self._raft: RaftNode | None = None
        self._outside: Outside | None = None
        self.image = audience.image
        """Returns the published metadata."""
        self.authorizer: Authorizer = ALLOW_ALL
        """Knows the rights of clients whose requests are decided here."""
        self.is_broker_up = False
        """Whether the broker in this process is registered."""
        self._is_closed = False
        self._is_open = False
        self._addresses = VoterAddresses(
            controller_config.listener,
            (controller_config.voters, controller_config.bootstrap),
            lambda: () if self._raft is None else self._raft.quorum.voters.voters,
            audience.image,
        )
        self._is_telling = False
        self._told_epoch = NOBODY
        """The epoch of the last leader that was told where this voter of the settings is."""
        self._published = 0
        self._is_known = False
        self._caught_up = asyncio.Event()
        self._snapshot_offset = _NO_OFFSET
        self._snapshot_due_ms = 0
        self._clean_due_ms = 0

    @property
    def quorum(self) -> Quorum:
        """The metadata log. It is replaced when the controller is reopened."""
        return self.raft.quorum

    @property
    def raft(self) -> RaftNode:
        """This node's part in the quorum."""
        assert self._raft is not None, "not opened"
        return self._raft

    @property
    def active(self) -> ActiveController | None:
        """The active controller, while this node leads the quorum."""
        return self._active

    @property
    def is_alone(self) -> bool:
        """Whether this node is a whole cluster: it is the only voter, no setting names controllers
        on other nodes, and its host has no other broker."""
        return self._is_sole_voter and not self._controller_config.has_others

    @property
    def _is_sole_voter(self) -> bool:
        """Whether no other node votes, so that the active controller is always on this node."""
        member = self.raft.core.member
        return member.is_voter and len(member.voters) == 1

    @property
    def outside(self) -> Outside:
        """The connections to other nodes, made at first use. A node that is alone makes none, and
        does not import their code."""
        if self._outside is None:
            from moldau.broker.server.outside import Outside

            controller_config = self._controller_config
            self._outside = Outside(
                (self._runtime, self._log),
                controller_config.membership.node_id,
                self._addresses.all(),
                lambda: self._active,
                (
                    controller_config.terms.request_timeout_s,
                    controller_config.security(self._runtime),
                ),
            )
        return self._outside

    def open(self) -> None:
        """Open the log. If this node is the only voter, it leads, and all metadata is published
        when this returns. Otherwise the newest snapshot is published, and `live` continues.

        Raise OSError, KafkaError or CorruptLog if the disk fails.
        """
        files, controller_config = self._runtime.files, self._controller_config
        quorum = Quorum.open(
            files,
            controller_config.directory,
            controller_config.membership,
            self._runtime.clock.wall_ms(),
            controller_config.log_config,
            controller_config.retention,
        )
        with ExitStack() as on_failure:
            on_failure.callback(quorum.log.abandon)
            self._raft = raft = self._make_raft(quorum)
            self._published = 0
            raft.start()
            if raft.failure is not None:
                raise raft.failure
            if self._is_sole_voter:
                self._publish_alone()
            else:
                self._publish_snapshot()
            on_failure.pop_all()
        self._is_open = True
        self._note_snapshot()
        # Count the time for which records of an earlier run have waited for a snapshot.
        waited = quorum.time_since_snapshot_ms(self._runtime.clock.wall_ms())
        self._snapshot_due_ms -= min(waited or 0, controller_config.snapshot_interval_ms)
        self._clean_due_ms = self.now_ms() + CLEAN_INTERVAL_MS

    def _make_raft(self, quorum: Quorum) -> RaftNode:
        controller_config, runtime = self._controller_config, self._runtime
        meta = read_meta_properties(runtime.files, controller_config.directory)
        member = Member(
            controller_config.membership.node_id,
            quorum.voters.ids,
            ZERO_UUID if meta is None or meta.directory_id is None else meta.directory_id,
            quorum.voters.directories,
            quorum.voters.is_dynamic,
            tuple(BOOTSTRAP_FROM - number for number in range(len(controller_config.bootstrap))),
            quorum.has_empty_disk,
        )
        core = RaftReplica(member, quorum.state, quorum, runtime.random, controller_config.timing)
        hooks = Hooks(
            on_leading=self._on_leading,
            on_resigned=self._on_resigned,
            on_committed=self._on_committed,
            on_snapshot=self._publish_snapshot,
            on_failure=self._on_failure,
            on_voters=self._on_voters,
        )
        ground = RaftServices(
            runtime,
            lambda: self.outside.peers,
            controller_config.terms,
            self._log,
            self._addresses.at,
            self._on_address,
        )
        return RaftNode(ground, quorum, core, hooks)

    # Addresses of other nodes.

    def _on_voters(self) -> None:
        if self._outside is not None:
            self._outside.update(self._addresses.all())

    def _on_address(self, node_id: int, host: str, port: int) -> None:
        if self._addresses.hear(node_id, host, port):
            self._on_voters()

    def live(self) -> None:
        """Take part in the quorum as leader or follower. Only for a quorum with other voters."""
        self.raft.live()

    async def caught_up(self) -> None:
        """Wait until everything is published that was committed when this node was opened."""
        await self._caught_up.wait()

    # Requests.

    def submit(self, request: Request, context: RequestContext, on_answer: OnAnswer) -> None:
        """See `ControllerChannel`. A request that no controller decided is answered with
        `Undecided`."""
        leader_id = self.raft.core.leader_id
        if self._active is not None:
            decide(self, request, context, on_answer)
        elif self._is_closed or leader_id in (NOBODY, self._controller_config.membership.node_id):
            on_answer(Undecided())
        else:
            self.outside.remote.submit(leader_id, request, context, on_answer)

    # Events of the quorum.

    def _on_leading(self) -> None:
        raft, controller_config = self.raft, self._controller_config
        observer = Observer(
            self._on_decided,
            raft.on_appended,
            self._on_failure,
            raft.change_voters,
        )
        self._active = ActiveController(
            self._runtime,
            raft.quorum,
            controller_config.rules,
            observer,
        )
        bootstrap = read_bootstrap(self._runtime.files, controller_config.directory)
        self._active.start(bootstrap, is_own_broker_up=self.is_broker_up)
        if not self.is_alone:
            self.outside.probe.suspect_all(controller_config.membership.node_id)

    def _on_resigned(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.resign()

    def _on_committed(self) -> None:
        if self._active is not None:
            self._active.on_committed()
        self._publish_until(self.quorum.high_watermark)
        if self.quorum.bytes_since_snapshot >= self._controller_config.snapshot_after_bytes:
            self.snapshot_soon()

    def _on_decided(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        """Publish this controller's committed records, after those of earlier controllers."""
        self._publish_until(end_offset - len(records))
        if end_offset > self._published:
            self._publish(records, end_offset)

    # Publishing.

    def _publish_alone(self) -> None:
        """Publish all metadata as the only voter, including the first records of a new cluster."""
        active = self._active
        assert active is not None
        self._published = self.quorum.log_end_offset
        self.quorum.flush()
        active.on_committed()
        image = active.controller.image
        self._audience.on_image(tuple(image.records()), self._published)
        self._is_known = True
        self._caught_up.set()

    def _publish_snapshot(self) -> None:
        """Publish the newest snapshot, all of which is committed."""
        quorum = self.quorum
        newest = quorum.newest_snapshot
        if newest is None or newest.end_offset <= self._published:
            return
        records = [
            record for batch in quorum.snapshot(newest).batches for record in decode_records(batch)
        ]
        self._published = newest.end_offset
        self._is_known = bool(records)
        self._audience.on_image(records, newest.end_offset)

    def _publish_until(self, end_offset: int) -> None:
        """Publish the records of the log up to `end_offset`."""
        quorum = self.quorum
        if end_offset > self._published:
            for batch in quorum.committed(self._published):
                if batch.header.base_offset >= end_offset:
                    break
                self._publish(decode_records(batch), batch.header.next_offset)
            if end_offset > self._published:  # a control batch of the quorum itself
                self._publish((), end_offset)
        told = self.raft.told_high_watermark
        if self._is_known and (self._active is not None or 0 <= told <= self._published):
            self._caught_up.set()

    def _publish(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        self._published = end_offset
        self._is_known = self._is_known or bool(records)
        self._audience.on_records(records, end_offset)

    # Time.

    def tick(self) -> None:
        """Do the periodic work, about once a second: detect silent brokers, write the snapshot that
        is due, and sometimes remove old data."""
        if self.raft.failure is not None or (
            self._active is not None and self._active.failure is not None
        ):
            return
        if self._active is not None:
            self._active.tick()
        leader_id = self.raft.core.leader_id
        if self._outside is not None and leader_id != NOBODY:
            self._outside.remote.heard_of_leader(leader_id)
        self._report_address()
        self._snapshot_when_due()
        self._clean_when_due()

    def _report_address(self) -> None:
        """Announce new endpoints of this voter to the leader (KIP-853). A voter of the settings
        announces itself to each new leader, which needs that to raise kraft.version."""
        core, voters = self.raft.core, self.quorum.voters
        own = _own_endpoints(self._controller_config, is_dynamic=voters.is_dynamic)
        known = voters.find(core.member.node_id)
        if known is None or self._is_telling or not (core.member.is_voter and own):
            return
        is_known = known.endpoints == own if voters.is_dynamic else self._told_epoch == core.epoch
        if is_known or core.leader_id == NOBODY or 0 in {port for _, _, port in own}:
            return
        epoch = core.epoch
        request = UpdateRaftVoterRequest(
            cluster_id=self._controller_config.terms.cluster_id,
            current_leader_epoch=epoch,
            voter_id=known.voter_id,
            voter_directory_id=core.member.directory_id,
            listeners=[Listener(name=name, host=host, port=port) for name, host, port in own],
            kraft_version_feature=KRaftVersionFeature(
                min_supported_version=KRAFT_VERSIONS[0], max_supported_version=KRAFT_VERSIONS[-1]
            ),
        )
        self._is_telling = True

        def on_answer(answer: Response | KafkaError) -> None:
            self._is_telling = False
            if isinstance(answer, UpdateRaftVoterResponse) and not answer.error_code:
                self._told_epoch = epoch

        self.submit(request, of_node(core.member.node_id, 0), on_answer)

    def _snapshot_when_due(self) -> None:
        interval_ms = self._controller_config.snapshot_interval_ms
        is_late = interval_ms > 0 and self.now_ms() >= self._snapshot_due_ms
        is_large = self.quorum.bytes_since_snapshot >= self._controller_config.snapshot_after_bytes
        if is_late or is_large:
            self.snapshot_soon()

    def snapshot_soon(self) -> None:
        """Start to write a snapshot of the published metadata, so that the log before it can be
        deleted. Do nothing while one is being written, or if nothing new was published since the
        last one."""
        keeper, image = self.raft.snapshots, self._audience.image()
        if (
            keeper.is_busy
            or not (self._is_open and self._is_known)
            or self._published <= self._snapshot_offset
            or image.is_in_transaction
        ):
            return
        batches = snapshot_batches(image, self._runtime.clock.wall_ms())
        keeper.write_soon(self._published, batches, self._on_snapshot_end)

    def _on_snapshot_end(self, error: Exception | None) -> None:
        if isinstance(error, OSError) and may_pass(error):
            self.quorum.bytes_since_snapshot //= 2  # retried after some more bytes
            self._log.error(
                f"cannot write a snapshot of the metadata, and tries again later: {advice(error)}",
                directory=self._controller_config.directory,
                error=str(error),
            )
        elif error is not None:
            self._on_failure(error)
            return
        self._note_snapshot()

    def _clean_when_due(self) -> None:
        keeper = self.raft.snapshots
        if self.now_ms() >= self._clean_due_ms and not keeper.is_busy and self._is_open:
            self._clean_due_ms = self.now_ms() + CLEAN_INTERVAL_MS
            keeper.clean_soon(self._on_cleaned)

    def _on_cleaned(self, error: Exception | None) -> None:
        if error is not None:
            self._log.failure("cannot let go of old snapshots of the metadata", error)

    def _note_snapshot(self) -> None:
        snapshots = self.quorum.snapshots
        self._snapshot_offset = snapshots[-1].end_offset if snapshots else _NO_OFFSET
        self._snapshot_due_ms = self.now_ms() + self._controller_config.snapshot_interval_ms

    def now_ms(self) -> int:
        """Return the monotonic time, which deadlines are given in."""
        return self._runtime.clock.monotonic_ns() // 1_000_000

    async def aclose(self) -> None:
        """Stop, and close the log in a complete state on disk unless it failed. Other voters elect
        a leader at once."""
        self._is_closed = True
        raft = self._raft
        if raft is not None:
            await raft.aclose()
            self._on_resigned()
        if self._outside is not None:
            await self._outside.aclose()
        if raft is not None and raft.quorum.log.failure is None:
            raft.quorum.close()

    # Failures.

    def _on_failure(self, error: Exception) -> None:
        """Handle a failure, which may happen in the middle of a decision. Reopening the controller,
        or giving up, runs in a task after the decision."""
        raft, active, self._active = self._raft, self._active, None
        if raft is None or not self._is_open or self._is_closed:
            return
        self._is_open = False
        if active is not None:
            active.resign()
        # A reopened damaged log would be cut at the damage. Topics whose records lie behind it
        # would count as deleted, and their data would be lost.
        is_lost = raft.flusher.is_durability_unknown or isinstance(error, BadData)
        if is_lost or not self._is_sole_voter:
            self._runtime.spawn(self._give_up(raft, error), name="controller-end")
        else:
            self._log.failure("the metadata log failed; it is opened anew", error)
            self._runtime.spawn(self._reopen(raft), name="controller-reopen")

    async def _give_up(self, failed: RaftNode, error: Exception) -> None:
        failed.quorum.log.abandon()
        await failed.aclose()
        if not self._is_closed:
            self._audience.on_end(self._unusable(failed.quorum.log.failure or error))

    async def _reopen(self, failed: RaftNode) -> None:
        failed.quorum.log.abandon()
        await failed.aclose()
        if self._is_closed:
            return
        try:
            self.open()
        except (OSError, MoldauError) as error:
            self._audience.on_end(self._unusable(error))
            return
        self._audience.on_reopened()

    def _unusable(self, error: Exception) -> CorruptLog:
        return CorruptLog(
            "the metadata log cannot be used; look at its disk and start the node again",
            directory=self._controller_config.directory,
            error=str(error),
        )


def decide(
    controller: LocalController, request: Request, context: RequestContext, on_answer: OnAnswer
) -> None:
    """Let the active controller on this node decide. This is the gate of decisions: every request
    passes it, forwarded or not, in the context of its original client."""
    active = controller.active
    assert active is not None, "this node does not lead the quorum"
    try:
        check_decision(type(request), controller.authorizer, context)
    except KafkaError as error:
        on_answer(error)
        return
    guarded = guard_decision(request, controller.authorizer, context, controller.image())
    if guarded is None:
        active.request(request, context, on_answer)
        return
    if isinstance(guarded, Response):
        on_answer(guarded)
        return

    def finish(response: Response | KafkaError) -> None:
        if not isinstance(response, KafkaError):
            guarded.finish(response)
        on_answer(response)

    active.request(guarded.message, context, finish)


def kraft_version(quorum: Quorum) -> int:
    """Return the committed level of the quorum's own protocol."""
    return quorum.voters_before(quorum.high_watermark).kraft_version


def _own_endpoints(
    config: ControllerConfig, *, is_dynamic: bool
) -> tuple[tuple[str, str, int], ...]:
    """Return the endpoints of this controller. If its listeners have no host, the settings name the
    address of this voter."""
    named = config.voters.get(config.membership.node_id)
    if is_dynamic or config.own or named is None:
        return config.own
    return ((config.listener, *named),)
