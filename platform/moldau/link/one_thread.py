"""Work of logins that waits for others, in one thread at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.link.sasl import Work
    from moldau.runtime import Runtime


class OneThread:
    """Does one step after the other. A caller that gives up leaves its step to its end, so a server
    that does not answer holds up one thread and no more."""

    def __init__(self) -> None:
        self._working: asyncio.Future[bytes] | None = None

    async def result(self, runtime: Runtime, wanted: Work) -> bytes:
        """Do the step. Raise what it raises."""
        while self._working is not None and not self._working.done():
            await asyncio.wait([self._working])
        self._working = runtime.run_blocking(wanted.result)
        return await asyncio.shield(self._working)
