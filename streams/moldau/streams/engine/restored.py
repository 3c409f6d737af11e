"""What a restore makes of records: those of an input topic as its table keeps them, and rows that
are out of retention.

A changelog has what a store has written; an input topic has what its producers have written. So the
records that the source left out when they ran are left out again, the others get the time of
`timestamp=`, and each key gets the bytes that the store looks it up by: JSON may be written in
several ways.

A record that the source would fail on stays as it is: it cannot have run with these types, and the
store says so when it is read.

A changelog has no record of a row that went out of retention, so a copy that follows a changelog
for long deletes such rows by itself (`RestoredTimes`), and a task does before it runs: a question
would find them until its first commit. The clock is the highest time of the restored records, which
is never ahead of that of the task that wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from moldau.streams.engine.construction import Store
from moldau.streams.engine.extracted import require_time, whole
from moldau.streams.plan import operations as op
from moldau.streams.plan.operations import Step
from moldau.streams.plan.plan import Program
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import BYTES, LENIENT_TEXT, TEXT, UNREADABLE
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.records import RecordStore
from moldau.streams.state.sessions import SessionStore
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.state.windows import WindowStore

Kept = Callable[[ChangelogRecords], ChangelogRecords]


def own_bytes(codec: Codec, key: bytes) -> bytes:
    """Return a key as the codec writes it. Raise what the codec raises for a key it cannot read."""
    decoded = codec.decode(key)
    own = codec.encode(decoded)
    # A codec for keys of any type may write what it cannot read.
    return own if own == key or _reads(codec, own) else key


def _reads(codec: Codec, key: bytes) -> bool:
    try:
        codec.decode(key)
    except UNREADABLE:
        return False
    return True


def kept_by_source(program: Program) -> dict[str, Kept]:
    """Return, by store, what its table keeps of records of its topic, if that may not be all."""
    found = {}
    for step in program.steps:
        if isinstance(step.operation, op.TableSource):
            policy = step.on_error or program.on_error
            leaves_out = policy.then in ("skip", "reply") or policy.dead_letter is not None
            is_plain = step.operation.key in (TEXT, BYTES, LENIENT_TEXT)
            if leaves_out or not is_plain or step.operation.timestamp is not None:
                found[step.operation.store.name] = _kept(step, leaves_out=leaves_out)
    return found


def _kept(step: Step, *, leaves_out: bool) -> Kept:
    source = step.operation
    assert isinstance(source, op.TableSource)
    timestamp, decode = source.timestamp, source.value.decode
    reads_values = leaves_out or timestamp is not None

    def own(key: bytes, data: bytes | None, time: int) -> tuple[bytes, int]:
        value = None if data is None or not reads_values else decode(data)
        if timestamp is not None:
            time = whole(timestamp(value, time))
        else:
            require_time(time)
        return own_bytes(source.key, key), time

    def kept(changes: ChangelogRecords) -> ChangelogRecords:
        found = ChangelogRecords()
        records = zip(changes.keys, changes.values, changes.timestamps, strict=True)
        for key, value, time in records:
            try:
                own_key, own_time = own(key, value, time)
            except Exception:
                if not leaves_out:
                    found.add(key, value, time)
            else:
                if own_time >= 0:
                    found.add(own_key, value, own_time)
        return found

    return kept


class RestoredTimes:
    """The highest time of what was restored, by store, and what is deleted by it."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._done: dict[str, int] = {}

    def advance(self, store: str, time: int) -> None:
        """Records up to this time were restored."""
        self._times[store] = max(time, self._times.get(store, -1))

    def expire(self, stores: Mapping[str, Store], *, is_last: bool = False) -> None:
        """Delete rows that are out of retention. The history of a versioned table is read for that,
        so it waits until a quarter of the retention has passed, and is left alone if no more is
        restored."""
        for name, time in self._times.items():
            store, done = stores[name], self._done.get(name)
            retention_ms = store.spec.retention_ms
            if retention_ms is None or (is_last and isinstance(store, VersionedStore)):
                continue
            every_ms = retention_ms // 4 if isinstance(store, VersionedStore) else 1
            if done is not None and time < done + every_ms:
                continue
            self._done[name] = time
            if isinstance(store, WindowStore):
                store.expire(time - retention_ms + 1)
            elif isinstance(store, SessionStore | RecordStore):
                store.expire()  # by the clock that it has restored
            elif isinstance(store, VersionedStore):
                store.expire_stored(time - retention_ms)
