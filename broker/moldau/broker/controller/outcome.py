"""The result of a controller's decision: records to append, and a response once they are committed.

Invariant: an outcome changes nothing by itself. Its records change the image when they are
replayed, and only then may the response be sent. The response of an outcome without records waits
only until older records are committed.
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
"""The maximum number of records for a user's request.
They enter the log as one batch, all or none."""


def check_record_count(records: Sized) -> None:
    """Raise POLICY_VIOLATION, as Kafka does, for more than BATCH_RECORDS_MAX records."""
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
class DecisionInputs:
    """The inputs of a decision besides the image: the time, the log offset of its first record,
    randomness, and how many files the process may still open."""

    now_ms: int
    next_offset: int
    random: Random
    open_files: OpenFiles | None = None
    """The open files of this process, for requests that create logs. None means no limit."""
