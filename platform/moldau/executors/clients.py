"""What a Python worker of Spark keeps from task to task: connections, programs and their tables.

Spark's workers outlive the drivers that they meet, and Spark does not tell them when an app ends.
So each task first drops what no task has used for a while. What the task then gets stays until the
next one begins, however long it takes.

A worker runs one task at a time, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

from moldau.client.base.blocking import BlockingClient
from moldau.runtime.threads import here

_IDLE_S: Final = 600.0
"""How long something is kept that no task uses."""
T = TypeVar("T")


class IdleCache(Generic[T]):
    """Things by their keys, until no task has used them for a while."""

    def __init__(self, close: Callable[[T], object] = lambda _: None) -> None:
        """`close` is called for each thing that is dropped."""
        self._close = close
        self._found: dict[Hashable, T] = {}
        self._used_at_s: dict[Hashable, float] = {}

    def get(self, key: Hashable) -> T | None:
        """Return what is kept under a key."""
        if key in self._found:
            self._used_at_s[key] = here().monotonic()
        return self._found.get(key)

    def put(self, key: Hashable, each: T) -> T:
        """Keep a thing, in place of another one, and return it."""
        self._drop([key])
        self._found[key] = each
        self._used_at_s[key] = here().monotonic()
        return each

    def drop_idle(self) -> None:
        """Drop what was not used for a while."""
        before_s = here().monotonic() - _IDLE_S
        self._drop([key for key, used_at_s in self._used_at_s.items() if used_at_s <= before_s])

    def drop_if(self, is_wrong: Callable[[T], bool]) -> None:
        """Drop some of the things."""
        self._drop([key for key, each in self._found.items() if is_wrong(each)])

    def clear(self) -> None:
        """Drop everything."""
        self._drop(list(self._found))

    def _drop(self, keys: list[Hashable]) -> None:
        for key in keys:
            self._used_at_s.pop(key, None)
            if key in self._found:
                self._close(self._found.pop(key))

    def __len__(self) -> int:
        return len(self._found)


CLIENTS: Final = IdleCache[Any](lambda each: each.close())
"""The blocking clients of this process, one of a class for equal settings."""
C = TypeVar("C", bound=BlockingClient)


def cached_client(
    kind: Callable[[Mapping[str, str]], C],
    settings: Mapping[str, str],
    on_start: Callable[[], object] | None = None,
) -> C:
    """Return this worker's client with these settings, started. `on_start` is called after the
    start of a new one."""
    key = kind, frozenset(settings.items())
    found: C | None = CLIENTS.get(key)
    if found is None or found.is_over:
        found = kind(settings)
        found.start()
        CLIENTS.put(key, found)
        if on_start is not None:
            on_start()
    return found
