"""Whether and when to retry: each wait is twice as long, up to a limit, plus or minus a fifth
(KIP-580), so that clients that lost the same broker do not all return at once."""

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
    """The wait before the first retry, and the longest wait."""

    first_ms: int
    longest_ms: int

    def wait_s(self, failures: int, random: Random) -> float:
        """Return the seconds to wait after `failures` failures in a row, at least one."""
        assert failures > 0
        longest = max(self.longest_ms, self.first_ms)
        wait = min(self.first_ms << min(failures - 1, _DOUBLINGS_MAX), longest)
        return wait * random.uniform(1 - JITTER, 1 + JITTER) / 1000


def may_work_later(error: KafkaError) -> bool:
    """Whether a retry may succeed: the code is retriable, or the broker is just not available."""
    return error.retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE
