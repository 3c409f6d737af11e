"""The outcome of a controller's decision, and the inputs of a decision besides the image.

Invariant: the response of an outcome without records waits only until older records are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

from moldau.broker.decision import outcome
from moldau.broker.decision.outcome import REQUEST
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord, Response

if TYPE_CHECKING:
    from random import Random

    from moldau.runtime.files import OpenFiles

R_co = TypeVar("R_co", covariant=True)

BATCH_RECORDS_MAX = 10_000
"""The maximum number of records for a user's request. They enter the log as one batch, all or
none."""


def check_record_count(records: Sized) -> None:
    """Raise POLICY_VIOLATION, as Kafka does, for more than BATCH_RECORDS_MAX records."""
    if len(records) > BATCH_RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "the request changes more than enters the log at once",
            records=len(records),
            records_max=BATCH_RECORDS_MAX,
        )


class Outcome(outcome.Outcome[MetadataRecord], Generic[R_co]):
    """Records for the metadata log, in order, and the response. The controller keeps no tickets:
    the one answer is for the request that is being decided."""

    __slots__ = ()

    def __new__(cls, records: tuple[MetadataRecord, ...], response: R_co) -> Self:
        """`response` is the response to the request, once the records are committed."""
        assert isinstance(response, Response)
        return tuple.__new__(cls, (records, ((REQUEST, response),), (), None))

    @property
    def response(self) -> R_co:
        """The response to the request."""
        ((_, response),) = self.answers
        return cast("R_co", response)


def _free(partitions: int) -> None:
    """Charge nothing."""


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """The inputs of a decision besides the image: the monotonic time, the log offset of its first
    record, randomness, and how many files the process may still open."""

    now_ms: int
    next_offset: int
    random: Random
    open_files: OpenFiles | None = None
    """The open files of this process, for requests that create logs. None means no limit."""
    kraft_version: int = 0
    """The level of the quorum's own protocol, which no record of the metadata has."""
    check_kraft_version: Callable[[int], object] | None = None
    """Raises KafkaError if the quorum's own protocol cannot be raised to this level."""
    wall_ms: int = 0
    """The time of day, for records that name one."""
    charge: Callable[[int], None] = _free
    """Charges the client for partitions that are created or deleted. Raises
    THROTTLING_QUOTA_EXCEEDED."""
