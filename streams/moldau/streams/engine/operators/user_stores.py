"""Stores as a user's operator sees them.

Key-value stores, windows, sessions and versions can be written. The rows of a table can only be
read. The objects here hide the entries, slices and encoded keys of the stores below.

Invariant: windows, sessions and versions are kept for their retention, by the highest time that the
store has seen. A `put` of something older changes nothing and returns False. A row with a time to
live cannot be seen from the moment on when it is over; it is deleted by one of the next commits, so
results do not depend on when a commit comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from moldau.streams.engine.operator import Clock, Getter
from moldau.streams.problems import StreamsError
from moldau.streams.state.keyvalue import Entry, KeyValueStore
from moldau.streams.state.sessions import SessionStore
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.state.windows import WindowStore

_FOREVER = 2**63 - 1
_EXPIRED_MAX = 10_000
"""So many rows whose time to live is over are deleted in one commit."""


Scan = Callable[[Any, Any], Iterable[tuple[Any, Entry]]]
"""scan(first, last): the rows with keys between these, both included."""


class WholeRows(Protocol):
    """The rows of a global table or store, which every worker has in full."""

    def get(self, key: object) -> Entry | None: ...

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Entry]]: ...


class UserStore:
    """A key-value store as a user's operator sees it."""

    def __init__(self, store: KeyValueStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ttl_ms = store.spec.retention_ms

    def get(self, key: Any, default: Any = None) -> Any:
        entry = self._entry(key)
        return default if entry is None else entry[0]

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key. Change a value by putting another, not in place. With a time to
        live the row begins a new one."""
        self._store.put(key, value, self._now())

    def delete(self, key: Any) -> Any:
        """Remove a key, and return its value or None."""
        entry = self._entry(key)
        self._store.put(key, None, self._now())
        return None if entry is None else entry[0]

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield rows with keys from `first` to `last`, both included, in the order of bytes."""
        for key, entry in list(self._store.items(first, last)):
            if self._ttl_ms is None or entry[1] >= self._first():
                yield key, entry[0]

    def __contains__(self, key: Any) -> bool:
        return self._entry(key) is not None

    def __getitem__(self, key: Any) -> Any:
        entry = self._entry(key)
        if entry is None:
            raise KeyError(key)
        return entry[0]

    __setitem__ = put

    def begin(self) -> None:
        """Take the time that the operator has kept over a restart."""
        self._now()

    def expire_before_flush(self) -> None:
        """Delete rows whose time to live is over, some at a time: the changelog hears of each."""
        if self._ttl_ms is not None:
            self._store.delete_before(self._first(), _EXPIRED_MAX)

    def _entry(self, key: Any) -> Entry | None:
        entry = self._store.get(key)
        if entry is None or self._ttl_ms is None:
            return entry
        return entry if entry[1] >= self._first() else None

    def _first(self) -> int:
        """Return the first time of a row that can be seen."""
        assert self._ttl_ms is not None
        return self._now() - self._ttl_ms + 1

    def _now(self) -> int:
        """Return the time of a row that is put now: operators with one store whose rows have a time
        to live share its highest time."""
        now = self._clock.time if self._ttl_ms is None else self._store.advance(self._clock.time)
        return max(now, 0)


class TableRows:
    """The rows of a table as a user's operator sees them: they can only be read. `scan` returns
    those in the store of the table, `find` the row of a key as later steps see it."""

    def __init__(self, name: str, scan: Scan, find: Getter) -> None:
        self._name = name
        self._scan = scan
        self._find = find

    def get(self, key: Any, default: Any = None) -> Any:
        row = self._find(key)
        return default if row is None else row[0]

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """Yield rows with keys from `first` to `last`, both included, in the order of bytes."""
        for key, _ in list(self._scan(first, last)):
            yield key, self.get(key)

    def __contains__(self, key: Any) -> bool:
        return self._find(key) is not None

    def __getitem__(self, key: Any) -> Any:
        row = self._find(key)
        if row is None:
            raise KeyError(key)
        return row[0]

    def put(self, key: Any, value: Any) -> None:
        """Raise StreamsError: only the input of a table changes it."""
        raise self._refused()

    __setitem__ = put

    def delete(self, key: Any) -> Any:
        """Raise StreamsError, as `put` does."""
        raise self._refused()

    def _refused(self) -> StreamsError:
        return StreamsError(
            f"store={self._name}: it is a table's, which an operator only reads: forward a record "
            "to what the table is made of, or keep a StateStore of your own"
        )


class UserWindows:
    """Windows of one size, by key and start. Change a value by putting another, not in place."""

    def __init__(self, store: WindowStore, clock: Clock) -> None:
        assert store.spec.retention_ms is not None
        self._store = store
        self._clock = clock
        self._retention_ms = store.spec.retention_ms

    def get(self, key: Any, start: int, default: Any = None) -> Any:
        """Return the value of a key in the window that starts at `start`."""
        entry = None if start < self._first() else self._store.fetch(key, start)
        return default if entry is None else entry[0]

    def put(self, key: Any, value: Any, start: int) -> bool:
        """Set the value of a key in a window; None deletes it. Return False if it is too old."""
        if start < self._first(start):
            return False
        # Brokers refuse changes from far ahead, so a window in the future has the present time.
        time = max(start, 0) if self._clock.time < 0 else min(max(start, 0), self._clock.time)
        self._store.put(key, start, None if value is None else (value, time))
        return True

    def delete(self, key: Any, start: int) -> Any:
        """Remove a key from a window, and return its value or None."""
        old = self.get(key, start)
        if old is not None:
            self._store.put(key, start, None)
        return old

    def fetch(self, key: Any, first: int = 0, last: int = _FOREVER) -> list[tuple[int, Any]]:
        """Return (start, value) of a key's windows from `first` to `last`, both included."""
        starts = self._store.starts(max(first, self._first()), last)
        found = ((start, self._store.fetch(key, start)) for start in starts)
        return [(start, entry[0]) for start, entry in found if entry is not None]

    def items(self) -> Iterator[tuple[Any, int, Any]]:
        """Yield (key, start, value) of all windows, by start, then by the bytes of the key."""
        first = self._first()
        for key, start, entry in list(self._store.items()):
            if start >= first:
                yield key, start, entry[0]

    def expire(self) -> None:
        """Drop the windows that are out of retention. Nothing may be dirty."""
        self._store.expire(self._first())

    def _first(self, start: int = -1) -> int:
        """Return the first start that is kept. Operators with one store share its highest time."""
        store = self._store
        store.advance(max(self._clock.time, start))
        return max(store.clock - self._retention_ms + 1, 0)


class Session(NamedTuple):
    """A session of a key."""

    key: Any
    start: int
    end: int
    value: Any


class UserSessions:
    """Sessions, by key, start and end. To extend a session, delete it and put the longer one."""

    def __init__(self, store: SessionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find(self, key: Any, first: int = 0, last: int = _FOREVER) -> list[Session]:
        """Return a key's sessions that overlap the time from `first` to `last`, both included."""
        self._move()
        found = self._store.find(self._store.keys.name(key), first, last)
        return [Session(key, start, end, value) for (end, start), value in found]

    def put(self, key: Any, start: int, end: int, value: Any) -> bool:
        """Set the value of a session. Return False if it ended before the retention."""
        if end < start:
            raise StreamsError(
                f"store={self._store.spec.name}: a session from {start} to {end} ends before it "
                "starts: give put(key, start, end, value)"
            )
        self._move()
        if end < self._store.first_end:
            return False
        self._store.put(self._store.keys.name(key), (end, start), value)
        return True

    def delete(self, key: Any, start: int, end: int) -> Any:
        """Remove a session, and return its value or None."""
        self._move()
        name = self._store.keys.name(key)
        old = self._store.value(name, (end, start))
        self._store.remove(name, (end, start))
        return old

    def items(self) -> Iterator[Session]:
        """Yield all sessions, by end, start and the bytes of the key."""
        self._move()
        for key, (end, start), value in list(self._store.items()):
            yield Session(key, start, end, value)

    def expire(self) -> None:
        """Drop the sessions that are out of retention. Nothing may be dirty."""
        self._move()
        self._store.expire()

    def _move(self) -> None:
        self._store.load()
        self._store.advance(self._clock.time)


class UserVersions:
    """The values of each key over time (KIP-889)."""

    def __init__(self, store: VersionedStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the newest value of a key."""
        entry = self._store.get(key)
        return default if entry is None else entry[0]

    def as_of(self, key: Any, time: int, default: Any = None) -> Any:
        """Return the value of a key that was valid at `time`."""
        entry = self._store.as_of(key, time)
        return default if entry is None else entry[0]

    def put(self, key: Any, value: Any, time: int | None = None) -> bool:
        """Set the value from `time` on, by default from the highest record time so far. None
        deletes the key from then on. Return False if the time is before the retention."""
        return self._store.put(key, value, max(self._clock.time, 0) if time is None else time)

    def delete(self, key: Any, time: int | None = None) -> bool:
        """Delete a key from `time` on, as `put` of None does."""
        return self.put(key, None, time)

    def versions(self, key: Any, first: int = 0, last: int = _FOREVER) -> list[tuple[int, Any]]:
        """Return (time, value) of a key's versions from `first` to `last`; None is a deletion."""
        return self._store.versions(key, first, last)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield the newest value of each key, in the order of the keys' bytes."""
        for key, entry in list(self._store.items()):
            yield key, entry[0]

    def __contains__(self, key: Any) -> bool:
        return self._store.get(key) is not None

    def expire(self) -> None:
        """Drop versions that stopped being valid before the retention. Nothing may be dirty."""
        self._store.expire()


Aged = UserWindows | UserSessions | UserVersions
UserStores = UserStore | Aged


def user_store(store: object, clock: Clock) -> UserStores:
    """Return a store as a user's operator sees it."""
    if isinstance(store, WindowStore):
        return UserWindows(store, clock)
    if isinstance(store, SessionStore):
        return UserSessions(store, clock)
    if isinstance(store, VersionedStore):
        store.load()
        return UserVersions(store, clock)
    assert isinstance(store, KeyValueStore)
    return UserStore(store, clock)
