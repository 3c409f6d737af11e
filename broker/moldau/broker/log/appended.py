"""What a log says of an append, and whom a log asks and tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from moldau.broker.log.admission import NO_APPEND_TIME


class Appended(NamedTuple):
    """What became of an append."""

    first_offset: int
    last_offset: int
    append_time_ms: int = NO_APPEND_TIME
    """-1 unless the topic stamps its records itself; of a duplicate, its newest timestamp, as Kafka
    answers it whatever the topic does."""
    is_duplicate: bool = False
    """The batch was there already; nothing was written."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom a log asks and tells. `persist_points` makes its recovery point and log start durable,
    as they are now; `on_failure` hears of an error of the disk, once."""

    persist_points: Callable[[], None] = lambda: None
    on_failure: Callable[[OSError], None] = lambda error: None
