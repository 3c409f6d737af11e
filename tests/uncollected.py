"""No garbage is collected while something is measured: with what the tests before have left, their
finalizers would count, and the time that it takes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect what is garbage already, and nothing more until the end."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
