"""What producers, consumers and replicas saw of a topic: the events that `anomalies` checks.

Each event is one line of JSON, so a program in any language can add its own lines to a history:

    {"event": "sent", "producer": "p", "partition": "t-0", "value": "p/1", "offset": 7}
    {"event": "read", "consumer": "c", "partition": "t-0", "offset": 7, "value": "p/1"}

Invariants: a value is sent once, so it names its record. The events of one producer, consumer or
broker are in the order in which they happened there. Events of different processes may be in any
order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import Final, TypeAlias

from moldau.deferred import dataclass
from moldau.errors import BadData


class Outcome(StrEnum):
    """The result of a record or a transaction, as far as its producer knows."""

    ACKNOWLEDGED = "acknowledged"
    """The record is written, or the transaction committed."""
    FAILED = "failed"
    """The record is certainly not written, or the transaction aborted."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer sent a record. These events are in the order of sending."""

    producer: str
    partition: str
    value: str
    offset: int = -1
    """The acknowledged offset; -1 if there was no acknowledgement, or none with an offset."""
    outcome: Outcome = Outcome.ACKNOWLEDGED
    transaction: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """A consumer received a record."""

    consumer: str
    partition: str
    offset: int
    value: str
    transaction: str = ""
    """The transaction of a program that reads and writes: this record was read in it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A consumer continues at another position of a partition: a rebalance, a seek, a restart."""

    consumer: str
    partition: str


@dataclass(frozen=True, slots=True)
class ReadAll:
    """A consumer read all partitions from their beginning to their end, after the last send."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction ended."""

    transaction: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Mark:
    """A leader reported its high watermark. These events are in the order of the reports."""

    broker: str
    partition: str
    leader_epoch: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A batch in a replica's log, recorded after all replicas had time to become equal."""

    broker: str
    partition: str
    offset: int
    digest: str


Event: TypeAlias = Sent | Read | Moved | ReadAll | Ended | Mark | Copy

_TYPES: Final[dict[str, type[Event]]] = {
    "sent": Sent,
    "read": Read,
    "moved": Moved,
    "read-all": ReadAll,
    "ended": Ended,
    "mark": Mark,
    "copy": Copy,
}
_NAMES: Final = {kind: name for name, kind in _TYPES.items()}


def line_of(event: Event) -> str:
    """Return the event as a line of JSON, without the line end."""
    return json.dumps({"event": _NAMES[type(event)], **asdict(event)}, separators=(",", ":"))


def events_of(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events of lines of JSON. Raise BadData for a line that is not an event."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _event_of(line, number)


def _event_of(line: str, number: int) -> Event:
    try:
        fields = json.loads(line)
        kind = _TYPES[fields.pop("event")]
        if "outcome" in fields:
            fields["outcome"] = Outcome(fields["outcome"])
        return kind(**fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadData("a line of a history is no event", line=number, why=str(error)) from error
