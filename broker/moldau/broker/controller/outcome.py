"""What a decision is: records to append, and the answer to give once they are committed.

Invariant: an outcome changes nothing by itself. Its records change the image when they are
replayed, and only then may the response leave. An outcome without records may be answered at once.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord

if TYPE_CHECKING:
    from random import Random

    from moldau.runtime.files import OpenFiles

R_co = TypeVar("R_co", covariant=True)

BATCH_RECORDS_MAX = 10_000
"""Records that a request of a user may make: they enter the log as one batch, all or none."""


def check_record_count(records: Sized) -> None:
    """KafkaError for more of them than that; as Kafka calls it."""
    if len(records) > BATCH_RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "the request changes more than enters the log at once",
            records=len(records),
            records_max=BATCH_RECORDS_MAX,
        )


@dataclass(frozen=True, slots=True)
class Outcome(Generic[R_co]):
    """Records for the metadata log, in order, and the response."""

    records: tuple[MetadataRecord, ...]
    response: R_co


@dataclass(frozen=True, slots=True)
class Moment:
    """What a decision may know besides the image: the time, where its first record will stand in
    the log, chance, and what the process has room for."""

    now_ms: int
    next_offset: int
    random: Random
    open_files: OpenFiles | None = None
    """Of this process, for requests that make logs; None: nothing limits them."""
