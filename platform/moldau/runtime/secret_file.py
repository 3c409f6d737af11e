"""A file for a secret that a library takes by its path only, and that must not be on a disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_DESCRIPTORS = "/proc/self/fd"


@contextmanager
def secret_file(text: str) -> Iterator[str]:
    """Return the path of a file with this text while the block runs. It is in memory where the
    system has that, else a file that only this user can read."""
    data = text.encode()
    if hasattr(os, "memfd_create") and os.path.isdir(_DESCRIPTORS):
        descriptor = os.memfd_create("moldau-secret")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"{_DESCRIPTORS}/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="moldau-secret-") as kept:
        kept.write(data)
        kept.flush()
        yield kept.name
