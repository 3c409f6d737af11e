"""Pipes that have names, as a shell gives them to commands: `moldau ... <(echo a=b)`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def filled_pipe(data: bytes) -> Iterator[str]:
    """The path of a pipe that has these few bytes in it, and nobody who writes any more."""
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
