"""How long to wait before a retry: each wait is twice as long, up to a limit, plus or minus a fifth
(KIP-580), so that clients that lost the same broker do not all return at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.deferred import dataclass

if TYPE_CHECKING:
    from random import Random

JITTER: Final = 0.2
_DOUBLINGS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """The wait before the first retry, the longest wait, and by which part waits are spread."""

    first_ms: int
    longest_ms: int
    jitter: float = JITTER

    def plain_ms(self, failures: int) -> int:
        """Return the milliseconds to wait after `failures` failures in a row, without jitter."""
        assert failures > 0
        longest = max(self.longest_ms, self.first_ms)
        return min(self.first_ms << min(failures - 1, _DOUBLINGS_MAX), longest)

    def wait_s(self, failures: int, random: Random) -> float:
        """Return the seconds to wait after `failures` failures in a row, at least one."""
        return self.plain_ms(failures) * random.uniform(1 - self.jitter, 1 + self.jitter) / 1000
