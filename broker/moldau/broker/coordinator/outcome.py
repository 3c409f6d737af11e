"""The result of a coordinator's decision: records to append, and the answers that depend on them.

Invariants: an outcome changes nothing durable by itself. The runtime appends its records as one
batch, replays them, and gives the answers when this batch and everything appended before it are
committed. A rejected append changes nothing: none of its records was replayed. `on_failure` then
decides what the waiting requests are answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from moldau.errors.codes import KafkaError
from moldau.protocol.declare import LogKey, LogValue, Response

Ticket: TypeAlias = object
"""One parked request, as the runtime knows it.
A core keeps the ticket and gives it back exactly once."""

Answer: TypeAlias = "tuple[Ticket, Response | KafkaError]"
OnFailure: TypeAlias = "Callable[[KafkaError, int], Outcome]"


# Named tuples, because every request creates one of these or both, and a frozen dataclass costs
# twice as much to create.


class LogRecord(NamedTuple):
    """One record of a coordinator's log, as a key and a value of its schemas.
    Without a value it is a tombstone."""

    key: LogKey
    value: LogValue | None = None
    version: int | None = None
    """The version in which the value is written.
    None means the newest version that the features allow."""


class Outcome(NamedTuple):
    """What the runtime must do, in this order: append `records`, replay them, give `answers` once
    they are committed.

    An answer that is a KafkaError becomes the response with this error. `on_failure` is called when
    the append was rejected; its arguments are the error and the time. The outcome that it returns
    replaces this one and has no records. Without `on_failure` all answers of this outcome become
    that error.
    """

    records: tuple[LogRecord, ...] = ()
    answers: tuple[Answer, ...] = ()
    on_failure: OnFailure | None = None


NOTHING: Final = Outcome()


def answered(ticket: Ticket, response: Response | KafkaError) -> Outcome:
    """An outcome with one answer and no records."""
    return Outcome((), ((ticket, response),))
