"""A slice of records that comes later, because it is read from a slower place than the log.

The reader of it:

1. `Partition.read` starts the slow read and returns a `LaterSlice` without records.
2. A fetch waits in the purgatory under its partitions, and under the slice as another key.
3. The slow read ends and calls `arrive` or `fail` on the event loop. The purgatory tries the fetch
   in the next turn, and it takes the records, or the error, with `take`.

Invariant: a slice comes once, perhaps before `Partition.read` returns, if the records are there
already. If a fetch ends before that, because its time is over, the same read is asked for again by
the client. So what reads slowly keeps what it has read for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.errors import without_frames
from moldau.records import HEADER_BYTES, read_header

if TYPE_CHECKING:
    from moldau.broker.log.slice import LogSlice
    from moldau.broker.log.transaction_index import AbortedTransaction
    from moldau.broker.replication.purgatory import Purgatory
    from moldau.errors.codes import KafkaError


class LaterSlice:
    """A slice that may not be there yet. Its key in the purgatory is the object itself."""

    __slots__ = ("_purgatory", "_result", "aborted")

    size_bytes: Final = 0
    """Until it is taken there is nothing to send."""

    def __init__(self, purgatory: Purgatory) -> None:
        self._purgatory = purgatory
        self._result: LogSlice | KafkaError | None = None
        self.aborted: Sequence[AbortedTransaction] = ()
        """What a reader of committed records must skip, once it has come. As of
        `Partition.aborted_transactions`."""

    @property
    def has_come(self) -> bool:
        """Whether `take` returns the records, or raises the error."""
        return self._result is not None

    def arrive(self, records: LogSlice, aborted: Sequence[AbortedTransaction] = ()) -> None:
        """Note that the records are there, and try the requests that wait for them."""
        self.aborted = aborted
        self._come(records)

    def fail(self, error: KafkaError) -> None:
        """Note that there will be no records, and try the requests that wait for them."""
        self._come(error)

    def _come(self, result: LogSlice | KafkaError) -> None:
        assert self._result is None, "a slice comes once"
        self._result = without_frames(result)
        self._purgatory.moved(self)

    def take(self, max_bytes: int | None = None, min_one_batch: bool = True) -> LogSlice:
        """Return the records that have come, within the limits as of `Partition.read`. Raise
        KafkaError if the read failed. It may be called again."""
        result = self._result
        assert result is not None, "it has not come"
        if isinstance(result, Exception):
            raise without_frames(result)
        if max_bytes is None or result.size_bytes <= max_bytes:
            return result
        first_bytes = read_header(result.read_at(0, HEADER_BYTES)).size_bytes
        if first_bytes <= max_bytes:
            return result.cut(max_bytes)
        return result.cut(first_bytes if min_one_batch else 0)
