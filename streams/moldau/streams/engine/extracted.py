"""The times that `timestamp=` functions give to records.

They decide which input of a task comes first, and are the records' times when these run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from moldau.streams.engine.batches import Chunk
from moldau.streams.plan import operations as op
from moldau.streams.plan.plan import Program

TIME_MAX: Final = 2**63 - 1
Stamp = Callable[[Chunk], Sequence[int]]


def stamps_of(program: Program) -> dict[str, Stamp]:
    """Return, by topic, the function for the times of a chunk, if `timestamp=` is given."""
    return {
        topic: _stamp(step.operation)
        for step in program.steps
        if isinstance(step.operation, op.Source | op.TableSource)
        and step.operation.timestamp is not None
        for topic in step.operation.topics
    }


def whole(time: Any) -> int:
    """Return the time that a timestamp function gave. Raise TypeError unless it is an int, and
    ValueError for one that no record can have."""
    if isinstance(time, int):
        if time > TIME_MAX:
            raise ValueError(f"timestamp= returned {time}; a time is 2**63 - 1 at most")
        return int(time)
    raise TypeError(
        f"timestamp= returned {time!r}; return milliseconds since 1970 as an int,"
        " int(seconds * 1000) for example"
    )


def require_time(time: int) -> None:
    """Raise ValueError if a record without a `timestamp=` function has no time."""
    if time < 0:
        raise ValueError(
            f"the record has the time {time}, which is before 1970; choose one with timestamp="
        )


def _stamp(source: op.Source | op.TableSource) -> Stamp:
    timestamp, decode = source.timestamp, source.value.decode
    assert timestamp is not None

    def stamp(chunk: Chunk) -> Sequence[int]:
        times = []
        for value, time in zip(chunk.values, chunk.timestamps, strict=True):
            try:
                chosen = whole(timestamp(None if value is None else decode(value), time))
            except Exception:  # it fails again when the record runs, and its policy decides
                chosen = time
            times.append(chosen)
        return times

    return stamp
