"""A task by hand, for tests of what runs tasks: it counts the words of lines by their keys.

Two programs as a word count has them: lines are split and go through a repartition topic, and the
counts of the words come out. Each store row is the count as text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from moldau.streams.engine.batches import Chunk, Outputs
from moldau.streams.engine.construction import Store
from moldau.streams.engine.global_table import LookupTable
from moldau.streams.engine.operators.deferred import AsyncCall
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.plan.topics import RepartitionTopic
from moldau.streams.serdes.codec import Codec
from moldau.streams.state.backing import Backing, Row
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.spec import StoreKind, StoreSpec

TEXT = Codec("text", str.encode, bytes.decode)
COUNTS = StoreSpec("counts", StoreKind.KEY_VALUE, TEXT, TEXT)


def word_count(app: str, lines: str = "lines", out: str = "out") -> Plan:
    words = f"{app}-words-repartition"
    return Plan(
        app,
        (
            Program(0, app, (), (lines,), (words,), ()),
            Program(1, app, (), (words,), (out,), (COUNTS,)),
        ),
        (RepartitionTopic(words),),
    )


class CountingTask:
    """Runs either program."""

    may_pause = False

    def __init__(
        self,
        program: Program,
        partition: int,
        backings: Mapping[str, Backing],
        texts: Sequence[str],
        global_tables: Mapping[str, LookupTable] | None = None,
    ) -> None:
        assert all(each == "time" for each in texts)
        self.restored = 0
        self._program = program
        self._rows = backings.get("counts")
        self._waiting: deque[tuple[int, int, bytes | None]] = deque()
        self._position: int | None = None
        self._out = Outputs(program.outputs[0])
        self._cache: dict[bytes, tuple[int, int]] = {}

    def add(self, topic: str, chunk: Chunk) -> None:
        for offset, time, key, value in zip(
            chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, strict=True
        ):
            assert not self._waiting or self._waiting[-1][0] < offset, "a record came twice"
            self._waiting.append((offset, time, key if self._rows is not None else value))

    def set_at_end(self, topic: str, is_at_end: bool) -> None: ...

    def process(self, now_ms: int, limit: int = 500) -> int:
        count = min(limit, len(self._waiting))
        for _ in range(count):
            offset, time, text = self._waiting.popleft()
            self._position = offset + 1
            if self._rows is not None:
                assert text is not None
                self._count(text, time)
            else:
                for word in (text or b"").split():
                    self._emit(word, b"", time)
        return count

    def _count(self, word: bytes, time: int) -> None:
        if word not in self._cache:
            assert self._rows is not None
            self._cache[word] = (int(self._rows.get(word) or b"0"), time)
        count, last = self._cache[word]
        self._cache[word] = (count + 1, max(time, last))

    def _emit(self, key: bytes, value: bytes, time: int) -> None:
        self._out.keys.append(key)
        self._out.values.append(value)
        self._out.timestamps.append(time)

    def punctuate(self, now_ms: int) -> None: ...

    def take_calls(self) -> list[AsyncCall]:
        return []

    def take_outputs(self) -> list[Outputs]:
        out, self._out = self._out, Outputs(self._out.topic)
        return [out] if len(out) else []

    def flush(self) -> Mapping[str, ChangelogRecords]:
        if self._rows is None:
            return {}
        changes = ChangelogRecords()
        rows: list[Row] = []
        for word, (count, time) in self._cache.items():
            row = b"%d" % count
            rows.append((word, row))
            changes.add(word, row, time)
            self._emit(word, row, time)
        self._rows.write(rows)
        self._cache.clear()
        return {"counts": changes}

    def expire_restored(self, *, is_last: bool = False) -> None: ...

    def is_unfinished(self) -> bool:
        return False

    def has_timer_fired(self) -> bool:
        return False

    def wants_commit(self) -> bool:
        return False

    def close(self) -> None: ...

    def restore(self, store: str, changes: ChangelogRecords) -> None:
        assert self._rows is not None
        self.restored += len(changes)
        self._rows.write(list(zip(changes.keys, changes.values, strict=True)))

    def limit_cache(self, size_bytes: int) -> None: ...

    def unflushed_bytes(self) -> int:
        return 100 * len(self._cache)

    def positions(self) -> Mapping[str, int]:
        return {} if self._position is None else {self._program.inputs[0]: self._position}

    def store(self, name: str) -> Store:
        raise AssertionError("no test asks for the rows of this task")

    def counters(self) -> Mapping[str, int]:
        return {}

    def metadata(self) -> str:
        return "time"

    def buffered(self, topic: str) -> int:
        return len(self._waiting)
