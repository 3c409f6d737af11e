"""Touches free memory, so that a round that writes much gets it at once.

A virtual machine may return free memory to its host, which hands it out again page by page, at the
first touch. Then a file grew at 0.3 GB/s in one round and at 3 GB/s in the next, whichever broker
wrote it. Memory that was touched a moment ago is available at once.

The system takes large pieces of memory for large writes and small ones for small writes, and what
one kind has freed is not available to the other. So both kinds are touched.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from typing import Final

_BYTES: Final = 1 << 30
_PIECE: Final = memoryview(bytes(1 << 20))


def touch_free_memory() -> None:
    """Touch as much memory as a round may write, and free it. Do nothing if there is too little."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    with suppress(OSError):
        mmap.mmap(-1, _BYTES, flags=flags).close()
    with suppress(OSError), tempfile.TemporaryFile() as file:
        for start in range(0, _BYTES, len(_PIECE)):
            os.pwrite(file.fileno(), _PIECE, start)
