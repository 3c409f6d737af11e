"""What a decision of a coordinator is: records to append, and the answers that depend on them.

Invariants: an outcome changes nothing durable by itself. The runtime appends its records as one
batch, replays them, and gives the answers when the batch, and all that was appended before it, is
committed. A refused append changes nothing: nothing of it was replayed, and `on_failure` says what
those hear who wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from moldau.errors.codes import KafkaError
from moldau.protocol.declare import LogKey, LogValue, Response

Ticket: TypeAlias = object
"""One parked request, as the runtime knows it. Cores keep it and give it back, each once."""

Answer: TypeAlias = "tuple[Ticket, Response | KafkaError]"
OnFailure: TypeAlias = "Callable[[KafkaError, int], Outcome]"


# Tuples, because each request pays for one of these or both, and a frozen dataclass costs twice
# as much to make.


class LogRecord(NamedTuple):
    """One record of a coordinator's log, by its schemas; a tombstone where there is no value."""

    key: LogKey
    value: LogValue | None = None
    version: int | None = None
    """In which version the value is written; None: the newest that the features allow."""


class Outcome(NamedTuple):
    """What the runtime must do, in this order: append `records`, replay them, give `answers` once
    they are committed.

    An answer that is a KafkaError becomes the response that has this error. `on_failure` is told
    that the append was refused, why, and when; what it returns is done in place of this outcome,
    and has no records. Without it the answers of this outcome become that error.
    """

    records: tuple[LogRecord, ...] = ()
    answers: tuple[Answer, ...] = ()
    on_failure: OnFailure | None = None


NOTHING: Final = Outcome()


def answered(ticket: Ticket, response: Response | KafkaError) -> Outcome:
    """Nothing to append, one answer."""
    return Outcome((), ((ticket, response),))
