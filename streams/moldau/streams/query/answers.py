"""Read the answer to a question from a store.

Invariants: an answer contains what the cache holds, flushed or not; reading changes nothing, and
keeps nothing in memory; a returned value is a copy, shared with no cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest, nsmallest
from itertools import islice
from typing import Any

from moldau.streams.engine.construction import Store
from moldau.streams.query.questions import (
    FOREVER_MS,
    BadQuery,
    Count,
    Fetch,
    Get,
    Question,
    Range,
    Row,
)
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.state.records import RecordStore
from moldau.streams.state.sessions import SessionStore
from moldau.streams.state.spec import StoreKind, StoreSpec
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.state.windows import OpenWindow, WindowStore

Answer = Row | None | list[Row] | int


def answer(store: Store, question: Question) -> Answer:
    """Return the store's answer. Raise BadQuery if a store of this kind has no such answer."""
    if isinstance(question, Count) and not isinstance(store, RecordStore):
        return store.approximate_count()
    _check_keys(store.spec, question)
    if isinstance(store, KeyValueStore):
        return _of_rows(store, question)
    if isinstance(store, VersionedStore):
        return _of_versions(store, question)
    if isinstance(store, WindowStore):
        return _of_windows(store, question)
    if isinstance(store, SessionStore):
        return _of_sessions(store, question)
    raise BadQuery(f"store={store.spec.name}: it holds records that wait, and answers no queries")


def _check_keys(spec: StoreSpec, question: Question) -> None:
    """Raise BadQuery for a key that no row of the store can have."""
    keys: list[Any] = []
    if isinstance(question, Get | Fetch):
        keys = [question.key]
    elif isinstance(question, Range):
        keys = [each for each in (question.first, question.last) if each is not None]
    for key in keys:
        try:
            spec.key.encode(key)
        except (TypeError, ValueError, AttributeError) as error:
            raise BadQuery(
                f"store={spec.name}: {key!r:.80} is no key of it, which are {spec.key.name}: "
                f"{error}"
            ) from None


def merged(spec: StoreSpec, question: Question, answers: Sequence[Any]) -> Answer:
    """Merge the answers of several partitions into one."""
    if isinstance(question, Count):
        total: int = sum(answers)
        return total
    if isinstance(question, Get):
        found: Row | None = next((each for each in answers if each is not None), None)
        return found
    rows = [row for each in answers for row in each]
    if isinstance(question, Range):
        order = _time_of if question.by_time and _has_times(spec) else _order_of(spec)
        return _cut(rows, question, order)
    return rows if question.limit is None else rows[: question.limit]


def _has_times(spec: StoreSpec) -> bool:
    return spec.kind in (StoreKind.WINDOW, StoreKind.SESSION)


def _time_of(row: Row) -> tuple[int, int]:
    return (row.key.end, row.key.start)


def _order_of(spec: StoreSpec) -> Callable[[Row], Any]:
    encode = spec.key.encode

    def order(row: Row) -> Any:
        if isinstance(row.key, Windowed) and spec.retention_ms is not None:
            return (encode(row.key.key), row.key.start, row.key.end)
        return (encode(row.key), 0, 0)

    return order


def _cut(rows: Iterable[Row], question: Range, order: Callable[[Row], Any]) -> list[Row]:
    """Return the first rows in an order; no more than these are kept in memory."""
    if question.limit is None:
        return sorted(rows, key=order, reverse=question.is_reverse)
    pick = nlargest if question.is_reverse else nsmallest
    return pick(question.limit, rows, key=order)


def _own(spec: StoreSpec, value: Any) -> Any:
    """Copy a value, unless it is immutable: the app may change the object in its cache."""
    return value if spec.value.is_immutable else spec.value.decode(spec.value.encode(value))


def _row(spec: StoreSpec, key: Any, value: Any, time: int) -> Row:
    return Row(key, _own(spec, value), time)


def _refused(spec: StoreSpec, question: Question, use: str) -> BadQuery:
    asked = type(question).__name__.lower()
    return BadQuery(f"store={spec.name} kind={spec.kind.value}: {asked} is not for it: use {use}")


def _of_rows(store: KeyValueStore, question: Question) -> Answer:
    spec = store.spec
    if isinstance(question, Get):
        if question.as_of is not None:
            raise _refused(spec, question, "as_of on a table with versioned=...")
        entry = store.peek(question.key)
        return None if entry is None else _row(spec, question.key, *entry)
    if isinstance(question, Range):
        found = store.peek_range(
            question.first, question.last, limit=question.limit, is_reverse=question.is_reverse
        )
        return [_row(spec, key, *entry) for key, entry in found]
    raise _refused(spec, question, "get or range")


def _of_versions(store: VersionedStore, question: Question) -> Answer:
    spec = store.spec
    assert not isinstance(question, Count)
    if isinstance(question, Get):
        at = FOREVER_MS if question.as_of is None else question.as_of
        if at < store.clock - (spec.retention_ms or 0):
            return None
        before = [each for each in store.peek(question.key) if each[0] <= at]
        if not before or before[-1][1] is None:
            return None
        return _row(spec, question.key, before[-1][1], before[-1][0])
    if isinstance(question, Fetch):
        found = (
            Row(question.key, None if value is None else _own(spec, value), time)
            for time, value in store.peek(question.key)
            if question.first <= time <= question.last
        )
        return list(islice(found, question.limit))
    within = _within(spec, question)
    rows = (_row(spec, key, *entry) for key, entry in store.items() if within(key))
    return _cut(rows, question, _order_of(spec))


def _of_windows(store: WindowStore, question: Question) -> Answer:
    spec = store.spec
    if isinstance(question, Fetch):
        entries = (
            (start, store.fetch(question.key, start))
            for start in store.starts(question.first, question.last)
        )
        found = (
            _row(spec, _window(spec, question.key, start), *entry)
            for start, entry in entries
            if entry is not None
        )
        return list(islice(found, question.limit))
    if isinstance(question, Range):
        within = _within(spec, question)
        starts = store.starts(question.since, question.until)
        if question.by_time and question.is_reverse:
            starts.reverse()
        rows = (
            _row(spec, _window(spec, key, start), *entry)
            for start in starts
            for key, entry in _rows_of(store, start)
            if within(key)
        )
        if question.by_time:
            return list(islice(rows, question.limit))
        return _cut(rows, question, _order_of(spec))
    raise _refused(spec, question, "fetch(key, first, last)")


def _rows_of(store: WindowStore, start: int) -> Iterator[tuple[Any, tuple[Any, int]]]:
    window = store.open.get(start) or OpenWindow(start, start, is_complete=False)
    for _, key, entry in store.entries(window):
        yield key, entry


def _window(spec: StoreSpec, key: Any, start: int) -> Windowed[Any]:
    end = FOREVER_MS if spec.window_ms is None else start + spec.window_ms
    return Windowed(key, start, end)


def _of_sessions(store: SessionStore, question: Question) -> Answer:
    spec = store.spec
    store.load()
    if isinstance(question, Fetch):
        name = store.keys.name(question.key)
        sessions = store.find(name, question.first, question.last, keep=False)
        return [
            _row(spec, Windowed(question.key, start, end), value, end)
            for (end, start), value in islice(sessions, question.limit)
        ]
    if isinstance(question, Range):
        within = _within(spec, question)
        rows = (
            _row(spec, Windowed(key, start, end), value, end)
            for key, (end, start), value in store.items()
            if end >= question.since and start <= question.until and within(key)
        )
        if question.by_time and question.is_reverse:
            return list(reversed(deque(rows, question.limit)))
        if question.by_time:
            return list(islice(rows, question.limit))
        return _cut(rows, question, _order_of(spec))
    raise _refused(spec, question, "fetch(key)")


def _within(spec: StoreSpec, question: Range) -> Callable[[Any], bool]:
    """Return a predicate that is true for keys in the range, compared by their bytes."""
    encode = spec.key.encode
    low = None if question.first is None else encode(question.first)
    high = None if question.last is None else encode(question.last)

    def within(key: Any) -> bool:
        data = encode(key)
        return (low is None or data >= low) and (high is None or data <= high)

    return within
