"""The outcome of a coordinator's decision: records are keys and values of its log's schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from moldau.broker.decision import outcome
from moldau.broker.decision.outcome import Answer, Effect, Ticket
from moldau.errors.codes import KafkaError
from moldau.protocol.declare import LogKey, LogValue, Response

__all__ = ("NOTHING", "Answer", "Effect", "LogRecord", "Outcome", "Ticket", "answered")


class LogRecord(NamedTuple):
    """One record of a coordinator's log, as a key and a value of its schemas. Without a value it is
    a tombstone."""

    key: LogKey
    value: LogValue | None = None
    version: int | None = None
    """The version in which the value is written. None means its newest version."""


if TYPE_CHECKING:
    Outcome: TypeAlias = outcome.Outcome[LogRecord]
else:
    Outcome = outcome.Outcome  # a subscripted class takes three times as long to make an object


NOTHING: Final[Outcome] = Outcome()


def answered(ticket: Ticket, response: Response | KafkaError) -> Outcome:
    """Return an outcome with one answer and no records."""
    return Outcome((), ((ticket, response),))
