"""Decides where the transactions of a source task end, and which offsets are in them. No IO.

`poll`: after each poll that had records. `interval`: after a time, also while nothing is polled or
the task is paused. `connector`: where the task says, by its `TransactionContext`, after a record or
after the poll (KIP-618).

Invariants: the offsets of a transaction are those of the last record of each source partition that
was sent or dropped in it, or since the last commit; an abort that the connector wants drops the
records and keeps their offsets, so that they are not read again; an unfinished transaction of a
connector that sets the boundaries is aborted at the end, offsets and all, and so is any transaction
with a part of a poll: records of one poll may have one offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from moldau.connect.api import SourceRecord
from moldau.connect.api.task import TransactionContext
from moldau.connect.errors import ConnectError
from moldau.connect.storage.keys import canonical
from moldau.connect.task.submitted import Offsets
from moldau.deferred import dataclass


class Boundary(Enum):
    """The values of `transaction.boundary`."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


class End(Enum):
    """How a transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True)
class Ready:
    """What the shell must do now, in this order: abort, then write the offsets and commit."""

    aborts: bool = False
    commits: bool = False
    offsets: Offsets = field(default_factory=list)
    is_read_again: bool = False
    """Whether the records of the aborted transaction are read again after a restart."""

    def __bool__(self) -> bool:
        return self.aborts or self.commits


class Wishes(TransactionContext):
    """The transaction context of a task: where it wants its transactions to end."""

    def __init__(self) -> None:
        self._after_poll: End | None = None
        self._after_records: dict[int, tuple[SourceRecord, End]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._note(record, End.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._note(record, End.ABORT)

    def _note(self, record: SourceRecord | None, end: End) -> None:
        known = self._after_poll
        if record is not None:
            known = self._after_records.get(id(record), (record, None))[1]
        if known not in (None, end):
            raise ConnectError(
                "the task wants to commit and to abort the same transaction -> correct the "
                "connector",
                after="a poll" if record is None else "a record",
            )
        if record is None:
            self._after_poll = end
        else:
            self._after_records[id(record)] = (record, end)

    def after_record(self, record: object) -> End | None:
        """Return, once, what the task wants after this record."""
        found = self._after_records.pop(id(record), None)
        return None if found is None else found[1]

    def after_poll(self) -> End | None:
        """Return, once, what the task wants after the poll."""
        end, self._after_poll = self._after_poll, None
        return end


class Boundaries:
    """The transactions of one task. After each event the shell does what `ready` returns."""

    def __init__(self, boundary: Boundary, interval_ms: int, now_ms: int) -> None:
        self.boundary = boundary
        self.wishes = Wishes() if boundary is Boundary.CONNECTOR else None
        self.interval_ms = interval_ms
        self._began_ms = now_ms
        self._offsets: dict[bytes, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._end: End | None = None
        self._is_cut = False
        self._is_read_again = False
        self._sent = 0

    def on_sent(self, count: int = 1) -> None:
        """Records were sent in the transaction."""
        self._sent += count

    def on_offset(
        self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None
    ) -> None:
        """All records of the source partition up to this offset were sent or dropped."""
        if partition is not None and offset is not None:
            self._offsets[canonical(dict(partition))] = (dict(partition), dict(offset))

    def on_record(self, record: object) -> None:
        """A single record was sent or dropped."""
        if self.wishes is not None:
            self._end = self.wishes.after_record(record)

    def on_poll(self) -> None:
        """All records of a poll were sent or dropped."""
        if self._is_cut:
            return
        if self.boundary is Boundary.POLL:
            self._end = End.COMMIT
        elif self.wishes is not None:
            self._end = self.wishes.after_poll()

    def on_cut(self) -> None:
        """The task ends, and the records of the last poll were not all sent."""
        self._is_cut = True

    def on_time(self, now_ms: int) -> None:
        """Some time has passed."""
        if self.boundary is Boundary.INTERVAL and now_ms - self._began_ms >= self.interval_ms:
            self._began_ms = now_ms
            self._end = End.COMMIT

    def on_stop(self) -> None:
        """The task ends in order: nothing more is polled."""
        self._end = End.COMMIT if self.wishes is None else self.wishes.after_poll()
        if self._end is None or self._is_cut:
            self._end, self._is_read_again = End.ABORT, True
            self._offsets.clear()

    def on_failure(self) -> None:
        """The task ends because something has failed."""
        self._end = None

    @property
    def has_end(self) -> bool:
        """Whether `ready` has something to do."""
        return self._end is not None

    def ready(self) -> Ready:
        """Return, once, what has to be done. What was sent before belongs to the past then."""
        end, self._end = self._end, None
        if end is None:
            return Ready()
        offsets, self._offsets = list(self._offsets.values()), {}
        sent, self._sent = self._sent, 0
        if end is End.ABORT:
            return Ready(sent > 0, bool(offsets), offsets, self._is_read_again)
        return Ready(False, bool(sent or offsets), offsets)
