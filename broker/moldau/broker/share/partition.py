"""One share partition on the node that leads the partition: runs its window.

Invariants:
- It serves one leader epoch of the partition. In another one it has ended, and a new one reads the
  state anew.
- Waiting fetches are tried when it is loaded, when records become available, and when it ends.
- It ends after an error that says that another one has its state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from moldau.broker.log.offset_lookup import LargeLookup
from moldau.broker.replication.ends import is_end_known, known_end
from moldau.broker.replication.purgatory import DelayedOperation, Pause
from moldau.broker.share.delivery_times import DeliveryTimes
from moldau.broker.share.persister import NOT_STARTED
from moldau.broker.share.window import (
    Acknowledgement,
    AcquireLimits,
    Burial,
    ReadBatch,
    Store,
    Window,
)
from moldau.broker.tiered.remote_lookup import RemoteLookup
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.log.offset_lookup import OffsetAt
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.purgatory import Purgatory
    from moldau.broker.share.counts import ShareCounts
    from moldau.broker.share.persister import DeadLetters, Persister, ShareKey, StoredState
    from moldau.broker.share.piece import AcquiredRange
    from moldau.broker.share.settings import ShareSettings
    from moldau.logging import Logger
    from moldau.runtime import Clock

T = TypeVar("T")

_MS: Final = 1_000_000
_END_UNKNOWN_MS: Final = 30_000
"""How long a share partition that begins at the end waits until the end is known."""
_NOT_HERE: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors of the persister after which the share partition ends."""


class ShareServices(Protocol):
    """The node as a share partition uses it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def log(self) -> Logger: ...

    @property
    def purgatory(self) -> Purgatory: ...

    @property
    def persister(self) -> Persister: ...

    @property
    def dead_letters(self) -> DeadLetters: ...

    @property
    def share_counts(self) -> ShareCounts: ...

    def share_settings(self, group_id: str) -> ShareSettings: ...

    def in_thread(self, work: Callable[[], T], then: Callable[[T | KafkaError], None], /) -> None:
        """Run work in a thread, one after the other, and give its result or error to `then`."""


class SharePartition:
    """One share partition; see the module. It is also the key of fetches that wait for it."""

    def __init__(self, services: ShareServices, key: ShareKey, partition: Partition) -> None:
        """Begin to load it."""
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.error: KafkaError | None = None
        """Why it has ended."""
        self.window: Window | None = None
        """None while it is loading."""
        self.times = DeliveryTimes(services.in_thread, partial(services.purgatory.moved, self))
        self._services = services
        self._clock = services.clock
        self._state_epoch = 0
        self._given = services.share_settings(key.group_id)
        self.settings = self._given.of_topic(partition.topic)
        """The settings of the group, as they were at the last request."""
        self.is_retired = False
        self._unknown_end: _UnknownEnd | None = None
        self._timer: Pause | None = None
        self._timer_ms = 0
        services.persister.load(key, self.leader_epoch, self._on_loaded)

    def __repr__(self) -> str:
        return f"<SharePartition {self.key.group_id} {self.partition}>"

    # Questions.

    def check(self) -> None:
        """Raise the error with which it has ended. End it if another leader epoch has begun."""
        partition = self.partition
        if self.error is None and (
            not partition.is_leader or partition.leader_epoch != self.leader_epoch
        ):
            self.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if self.error is not None:
            raise without_frames(self.error)

    def _renew_settings(self) -> None:
        """Take the settings of the group as they are now."""
        found = self._services.share_settings(self.key.group_id)
        if found is not self._given:
            self._given = found
            self.settings = found.of_topic(self.partition.topic)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // _MS

    def wall_ahead_ms(self) -> int:
        """Return what the wall clock says more than the clock of the window."""
        return self._clock.wall_ms() - self._now_ms()

    def _by_wall_clock(self, change: Store) -> Store:
        """Return a change with the times that other nodes understand."""
        for run in change.runs:
            if run.rest_ms:
                break
        else:
            return change
        ahead_ms = self.wall_ahead_ms()
        runs = (
            run._replace(rest_ms=run.rest_ms + ahead_ms) if run.rest_ms else run
            for run in change.runs
        )
        return change._replace(runs=tuple(runs))

    # Loading.

    def _on_loaded(self, loaded: StoredState | KafkaError) -> None:
        if self.error is not None:
            return
        if isinstance(loaded, KafkaError):
            self.end(loaded)
            return
        try:
            start: int | None = loaded.start_offset
            if start == NOT_STARTED:
                start = self._chosen_start(loaded)
        except KafkaError as error:
            self._has_no_start(loaded, error)
            return
        if start is not None:
            self._begin(loaded, start)

    def _has_no_start(self, loaded: StoredState, error: KafkaError) -> None:
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE:
            self._await_end(loaded)
        else:
            self.end(error)

    def _begin(self, loaded: StoredState, start: int) -> None:
        """Serve members, from this offset on."""
        self._state_epoch = loaded.state_epoch
        ahead_ms = self.wall_ahead_ms()
        runs = (run._replace(rest_ms=max(run.rest_ms - ahead_ms, 0)) for run in loaded.runs)
        self._renew_settings()
        self.window = Window(start, runs, self.settings.delivery_limit)
        self.window.on_log_start(self.partition.log_start_offset)
        if loaded.start_offset == NOT_STARTED:
            self.window.store_start()
        self._carry_out()
        self._services.purgatory.moved(self)
        self._end_if_retired()

    def _await_end(self, loaded: StoredState) -> None:
        """Stay loading until the end of the partition is known, at which the group is to begin."""
        self._unknown_end = _UnknownEnd(self, partial(self._on_loaded, loaded))
        self._services.purgatory.watch(self._unknown_end, (self.partition,), _END_UNKNOWN_MS)

    def _chosen_start(self, loaded: StoredState) -> int | None:
        """Return where the group begins, as its settings say; None if it takes long to find out,
        and begins then."""
        partition = self.partition
        self.check()
        self._renew_settings()
        way, duration_ms = self.settings.reset
        if way == "earliest":
            return partition.log_start_offset
        if way == "by_duration":
            return self._start_since(loaded, max(0, self._clock.wall_ms() - duration_ms))
        return known_end(partition)

    def _start_since(self, loaded: StoredState, since_ms: int, offset: int = 0) -> int | None:
        """Return the offset of the first record of a time, looked for from an offset on."""
        partition = self.partition
        found = partition.look_up(since_ms, partition.high_watermark, offset)
        if isinstance(found, LargeLookup | RemoteLookup):
            then = partial(self._on_looked_up, loaded, since_ms, found)
            if isinstance(found, RemoteLookup):
                found.begin(then)
            else:
                self._services.in_thread(found.run, then)
            return None
        return known_end(partition) if found is None else found.offset

    def _on_looked_up(
        self,
        loaded: StoredState,
        since_ms: int,
        lookup: LargeLookup | RemoteLookup,
        found: OffsetAt | KafkaError | None,
    ) -> None:
        if self.error is not None:
            return
        try:
            self.check()
            if isinstance(found, KafkaError):
                raise without_frames(found)
            start: int | None = None
            if found is None:
                start = self._start_since(loaded, since_ms, lookup.next_offset)
            elif found.offset < self.partition.high_watermark:
                start = found.offset
            else:
                start = known_end(self.partition)
        except KafkaError as error:
            self._has_no_start(loaded, error)
            return
        if start is not None:
            self._begin(loaded, start)

    # Called by handlers.

    def acquire(
        self, member_id: str, read: Sequence[ReadBatch], wanted: AcquireLimits
    ) -> list[AcquiredRange]:
        """Give a member records that were read from the window's fetch offset."""
        assert self.window is not None
        found = self.window.acquire(member_id, read, wanted, self.settings, self._now_ms())
        self._services.share_counts.on_acquired(found)
        self._carry_out()
        return found

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[Acknowledgement],
        then: Callable[[KafkaError | None], None],
    ) -> None:
        """Note what a member says, after `check`. `then` is called once, when it is stored or
        refused."""
        if self.window is None:
            then(KafkaError(ErrorCode.INVALID_RECORD_STATE, "the share partition is loading"))
            return
        self._renew_settings()
        self._services.share_counts.on_acknowledged(batches)
        self.window.on_acknowledge(member_id, batches, then, self.settings, self._now_ms())
        self._carry_out()

    def leave(self, member_id: str) -> None:
        """Release all records of a member."""
        if self.error is None and self.window is not None:
            self.window.on_left(member_id, None, self.settings)
            self._carry_out()

    def retire(self) -> None:
        """End it as soon as all changes are stored: no member reads it any more."""
        self.is_retired = True
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if not self.is_retired or self.window is None or self.window.is_storing:
            return
        if self.error is None:
            self.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "no member reads it any more"))

    def refresh(self) -> None:
        """Note the ends of locks, and records that the log has deleted."""
        window = self.window
        if window is None or self.error is not None:
            return
        self._renew_settings()
        is_changed = window.on_time(self._now_ms(), self.settings)
        if window.on_log_start(self.partition.log_start_offset) or is_changed:
            self._carry_out()

    def end(self, error: KafkaError) -> None:
        """End it. What waits gets the error."""
        if self.error is not None:
            return
        self.error = without_frames(error)
        for waiting in (self._timer, self._unknown_end):
            if waiting is not None:
                self._services.purgatory.cancel(waiting)
        if self.window is not None:
            self.window.on_fenced(error)
            self._give_answers()
        self._services.purgatory.moved(self)

    # Carrying out.

    def _give_answers(self) -> None:
        assert self.window is not None
        for ticket, error in self.window.ready().answers:
            assert callable(ticket)
            ticket(error)

    def _carry_out(self) -> None:
        window = self.window
        assert window is not None
        if self.error is not None:
            return
        ready = window.ready()
        for burial in ready.burials:
            self._write_letters(burial)
        if ready.store is not None:
            change = self._by_wall_clock(ready.store)
            self._services.persister.store(
                self.key, self._state_epoch, self.leader_epoch, change, self._on_stored
            )
        for ticket, error in ready.answers:
            assert callable(ticket)
            ticket(error)
        if ready.is_available:
            self._services.purgatory.moved(self)
        if ready.due_ms is not None and self.error is None:
            self._wake_at(ready.due_ms)

    def _write_letters(self, burial: Burial) -> None:
        """Write letters."""

        def buried(error: KafkaError | None) -> None:
            if self.error is None:
                assert self.window is not None
                self.window.on_buried(burial, error, self._now_ms(), self.settings)
                self._carry_out()
                self._end_if_retired()

        topic = self.settings.dead_letter_topic
        if topic is None:
            buried(None)  # a node with other settings has stored that they wait for letters
            return
        self._services.dead_letters.bury(self.key, self.partition, topic, burial.letters, buried)

    def _on_stored(self, error: KafkaError | None) -> None:
        if self.error is not None:
            return
        if error is not None and error.code in _NOT_HERE:
            self.end(error)
            return
        assert self.window is not None
        self.window.on_stored(error, self._now_ms(), self.settings)
        self._carry_out()
        self._end_if_retired()

    def _wake_at(self, due_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= due_ms:
                return
            self._services.purgatory.cancel(self._timer)
        self._timer_ms = due_ms
        self._timer = Pause(self._on_timer)
        self._services.purgatory.watch(self._timer, (), max(due_ms - self._now_ms(), 0) + 1)

    def _on_timer(self) -> None:
        self._timer = None
        try:
            self.check()
        except KafkaError:
            return
        self.refresh()
        if self.window is not None:
            self._carry_out()  # sets the next timer


class _UnknownEnd(DelayedOperation):
    """The wait of a share partition for the end of its partition, after an election."""

    __slots__ = ("_share", "_then")

    def __init__(self, share: SharePartition, then: Callable[[], None]) -> None:
        self._share = share
        self._then = then

    def try_complete(self) -> bool:
        partition = self._share.partition
        is_led = partition.is_leader and partition.leader_epoch == self._share.leader_epoch
        if is_led and not is_end_known(partition):
            return False
        self._then()
        return True

    def on_timeout(self) -> None:
        # The next fetch of a member loads it anew.
        self._share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the end is not known yet"))
