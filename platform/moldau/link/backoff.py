"""Whether to try again, and how long to wait before that: twice as long each time, up to a bound,
give or take a fifth (KIP-580), so that clients which lost one broker do not all come back at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from random import Random

JITTER: Final = 0.2
_DOUBLINGS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """A wait before the first retry, and the longest one."""

    first_ms: int
    longest_ms: int

    def wait_s(self, failures: int, random: Random) -> float:
        """Seconds to wait after so many failures in a row, of which there was at least one."""
        assert failures > 0
        longest = max(self.longest_ms, self.first_ms)
        wait = min(self.first_ms << min(failures - 1, _DOUBLINGS_MAX), longest)
        return wait * random.uniform(1 - JITTER, 1 + JITTER) / 1000


def may_work_later(error: KafkaError) -> bool:
    """What the table of codes gives a chance, and a broker that is not there at present."""
    return error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
