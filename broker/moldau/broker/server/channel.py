"""The controller of this node: opened from its log, asked by the broker, opened anew after a fault.

Invariants: what a caller is told was committed, and published to this node, before; an answer is
given once; a controller whose log failed is never asked again, another one is made from the log,
which holds all that was acknowledged. If that does not work either, the disk refuses, and `on_end`
hears why the node cannot go on. It hears at once when a sync failed: what the log shows from then
on is memory, and not what is on the disk.

With one voter the active controller is always here, so asking it is a call. A cluster puts a
connection in its place, behind the same `submit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.controller.rules import Rules
from moldau.broker.controller.setting_schema import SettingSchema
from moldau.broker.controller.shell import ActiveController, Observer, OnAnswer
from moldau.broker.controller.storage import read_bootstrap
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.open_files import advice
from moldau.broker.raft.quorum import Membership, Quorum
from moldau.broker.raft.snapshot_retention import SnapshotRetention
from moldau.broker.settings import controller as rows
from moldau.broker.settings.creation import default_replication_factor, num_partitions
from moldau.broker.settings.node import broker_session_timeout_ms, node_id
from moldau.broker.settings.replication import min_insync_replicas
from moldau.broker.settings.syntax import parse_voter
from moldau.errors import BadData, CorruptLog, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord, Request

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.logging import Logger
    from moldau.runtime import Runtime

OnRecords: TypeAlias = Callable[[Sequence[MetadataRecord], int], None]

CLEAN_INTERVAL_MS: Final = 60_000
_NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class Charter:
    """What a controller of this node stands on, each time that it is opened."""

    directory: str
    """The log directory that holds the metadata log."""
    membership: Membership
    rules: Rules
    log_config: LogConfig
    retention: SnapshotRetention
    snapshot_after_bytes: int
    snapshot_interval_ms: int


def charter_of(settings: Settings, cluster_id: str, directory: str) -> Charter:
    """What the settings say of it."""
    voters = (parse_voter(text) for text in settings[rows.controller_quorum_voters])
    static = tuple(voter.node_id for voter in voters if voter is not None)
    segment_bytes = settings[rows.internal_metadata_log_segment_bytes]
    return Charter(
        directory=directory,
        membership=Membership(settings[node_id], static),
        rules=Rules(
            cluster_id,
            settings[node_id],
            SettingSchema(settings),
            num_partitions=settings[num_partitions],
            replication_factor=settings[default_replication_factor],
            min_isr=settings[min_insync_replicas],
            session_timeout_ms=settings[broker_session_timeout_ms],
        ),
        log_config=LogConfig(
            segment_bytes=segment_bytes or settings[rows.metadata_log_segment_bytes],
            segment_ms=settings[rows.metadata_log_segment_ms],
            max_message_bytes=settings[rows.internal_metadata_max_batch_size_in_bytes],
            file_delete_delay_ms=settings[rows.internal_metadata_delete_delay_millis],
            retention_ms=-1,
            retention_bytes=-1,
        ),
        retention=SnapshotRetention(
            settings[rows.metadata_max_retention_bytes], settings[rows.metadata_max_retention_ms]
        ),
        snapshot_after_bytes=settings[rows.metadata_log_max_record_bytes_between_snapshots],
        snapshot_interval_ms=settings[rows.metadata_log_max_snapshot_interval_ms],
    )


@dataclass(frozen=True, slots=True)
class Audience:
    """Whom a controller tells what. `on_image` gets all metadata, once each time it is opened, and
    `on_records` what is committed after it; each with the offset after the last record."""

    on_image: OnRecords
    on_records: OnRecords
    on_reopened: Callable[[], object]
    on_end: Callable[[Exception], object]


class LocalController:
    """Satisfies `api.node.ControllerChannel`."""

    def __init__(self, runtime: Runtime, charter: Charter, audience: Audience, log: Logger) -> None:
        self._runtime = runtime
        self._charter = charter
        self._audience = audience
        self._log = log
        self._active: ActiveController | None = None
        self._quorum: Quorum | None = None
        self._is_closed = False
        self._snapshot_offset = _NO_OFFSET
        self._snapshot_due_ms = 0
        self._clean_due_ms = 0

    @property
    def quorum(self) -> Quorum:
        """The metadata log; another one after the controller was opened anew."""
        assert self._quorum is not None, "not opened"
        return self._quorum

    @property
    def active(self) -> ActiveController:
        """The controller; another one after it was opened anew."""
        assert self._active is not None, "not opened"
        return self._active

    def open(self) -> None:
        """Replay the log and lead. All that it says is published when this returns.

        ConfigError when others vote; OSError, KafkaError or CorruptLog when the disk refuses.
        """
        files, charter = self._runtime.files, self._charter
        quorum = Quorum.open(
            files,
            charter.directory,
            charter.membership,
            self._runtime.clock.wall_ms(),
            charter.log_config,
            charter.retention,
        )
        publish = self._audience.on_image

        def on_committed(records: Sequence[MetadataRecord], end_offset: int) -> None:
            publish(records, end_offset)

        observer = Observer(on_committed, self._on_failure, self._on_postponed)
        active = ActiveController(
            self._runtime,
            quorum,
            charter.rules,
            observer,
            snapshot_after_bytes=charter.snapshot_after_bytes,
        )
        with ExitStack() as on_failure:
            on_failure.callback(quorum.log.abandon)
            active.start(read_bootstrap(files, charter.directory))
            on_failure.pop_all()
        publish = self._audience.on_records
        self._active, self._quorum = active, quorum
        self._note_snapshot()
        # What an earlier life left without a snapshot has waited for one already.
        waited = quorum.time_since_snapshot_ms(self._runtime.clock.wall_ms())
        self._snapshot_due_ms -= min(waited or 0, charter.snapshot_interval_ms)
        self._clean_due_ms = self._now_ms() + CLEAN_INTERVAL_MS

    def submit(self, request: Request, version: int, on_answer: OnAnswer) -> None:
        """See `ControllerChannel`; KafkaError NOT_CONTROLLER while there is no controller."""
        if self._active is None:
            on_answer(KafkaError(ErrorCode.NOT_CONTROLLER))
        else:
            self._active.request(request, version, on_answer)

    def tick(self) -> None:
        """About once a second: brokers that are silent, the snapshot that time asks for, and now
        and then what is too old."""
        if self._active is None or self._active.failure is not None:
            return
        self._active.tick()
        self._snapshot_when_due()
        self._clean_when_due()

    def _snapshot_when_due(self) -> None:
        active, quorum = self._active, self.quorum
        end_offset = quorum.log_end_offset
        if (
            active is not None
            and self._charter.snapshot_interval_ms > 0
            and self._now_ms() >= self._snapshot_due_ms
            and self._snapshot_offset < end_offset == quorum.high_watermark
        ):
            try:
                active.snapshot()
            except OSError as error:
                self._on_postponed(error)
            self._note_snapshot()

    def _clean_when_due(self) -> None:
        active = self._active
        if active is not None and active.failure is None and self._now_ms() >= self._clean_due_ms:
            self._clean_due_ms = self._now_ms() + CLEAN_INTERVAL_MS
            try:
                self.quorum.clean(self._runtime.clock.wall_ms())
            except (OSError, KafkaError) as error:
                self._log.failure("cannot let go of old snapshots of the metadata", error)

    def _on_postponed(self, error: OSError) -> None:
        self._log.error(
            f"cannot write a snapshot of the metadata, and tries again later: {advice(error)}",
            directory=self._charter.directory,
            error=str(error),
        )

    def _note_snapshot(self) -> None:
        snapshots = self.quorum.snapshots
        self._snapshot_offset = snapshots[-1].end_offset if snapshots else _NO_OFFSET
        self._snapshot_due_ms = self._now_ms() + self._charter.snapshot_interval_ms

    def _now_ms(self) -> int:
        return self._runtime.clock.monotonic_ns() // 1_000_000

    def close(self) -> None:
        """Stop, with the log whole on disk if it can be."""
        self._is_closed = True
        active, self._active = self._active, None
        if active is not None:
            active.close()

    # A fault.

    def _on_failure(self, error: Exception) -> None:
        """In the midst of a decision, perhaps: what is to be done is done after it."""
        quorum, active, self._active = self._quorum, self._active, None
        if quorum is None or active is None or self._is_closed:
            return
        # Opened anew, a damaged log would be cut where the damage is, and topics that are told of
        # behind it would count as deleted, with their records.
        if active.is_durability_unknown or isinstance(error, BadData):
            self._runtime.spawn(self._give_up(quorum, error), name="controller-end")
        else:
            self._log.failure("the metadata log failed; it is opened anew", error)
            self._runtime.spawn(self._reopen(quorum), name="controller-reopen")

    async def _give_up(self, failed: Quorum, error: Exception) -> None:
        failed.log.abandon()
        if not self._is_closed:
            self._audience.on_end(self._unusable(failed.log.failure or error))

    async def _reopen(self, failed: Quorum) -> None:
        failed.log.abandon()
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
            directory=self._charter.directory,
            error=str(error),
        )
