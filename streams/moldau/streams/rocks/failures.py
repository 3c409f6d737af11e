"""The meaning of RocksDB's errors: rocksdict raises plain `Exception` with RocksDB's text.

Invariant: a corruption is distinguished from everything else, because a restore from the changelog
repairs it, while a full disk or a missing permission must stop the worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from moldau.errors import MoldauError
from moldau.streams.problems import StateError

_CORRUPTION: Final = "Corruption"
_LOCKED: Final = ("lock hold by current process", "While lock file")
_NO_ROOM: Final = "No space left on device"


class StoreFailed(StateError):
    """RocksDB refused an operation; the state on disk is that of the last commit."""


class StoreCorrupted(StoreFailed):
    """The files of a task's state are damaged. The changelog has everything to rebuild them."""


class StateInUse(StoreFailed):
    """Another worker uses the state directory."""


@contextmanager
def rocks_errors(path: str) -> Iterator[None]:
    """Convert RocksDB's errors inside the block into ours, with the database's path."""
    try:
        yield
    except MoldauError:
        raise
    except Exception as error:
        raise meaning_of(error, path) from error


def meaning_of(error: Exception, path: str) -> Exception:
    """Return our error for one of RocksDB's, and any other exception unchanged."""
    text = str(error)
    if _CORRUPTION in text:
        return StoreCorrupted(f"the state is damaged: {text}", path=path)
    if any(mark in text for mark in _LOCKED):
        return StateInUse(
            "another worker uses this state: stop it, or give each worker its own --state",
            path=path,
        )
    if type(error) is not Exception:
        return error
    if _NO_ROOM in text:
        return StoreFailed(f"the disk is full: make room and start again ({text})", path=path)
    return StoreFailed(f"RocksDB: {text}", path=path)
