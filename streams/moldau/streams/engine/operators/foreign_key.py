"""Joins of two tables by a foreign key in the left one.

1. `SubscribeOperator` (at the left row) sends a reference to the partition of the foreign key, and
   the partition where the left row lies, which no hash has to give (KIP-775).
2. `ReferencesOperator` (at the right row) keeps these references, and answers with the right value,
   to the partition of the left row: at once, and again at each update of the right row.
3. `ResolveOperator` (at the left row) joins an answer with the left row, if the row is still the
   one that sent the reference: answers to an older version carry another hash and are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operator import Current, Getter, Operator, Row
from moldau.streams.engine.row_functions import RowFunctions
from moldau.streams.plan.functions import Call
from moldau.streams.plan.joins import JoinKind, References, Resolve, Subscribe
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.compound import HASH_BYTES
from moldau.streams.state.keyvalue import KeyValueStore

# Instructions: what to do with a reference, and whether to answer.
DELETE, DELETE_AND_ANSWER, ANSWER, ANSWER_IF_FOUND = range(4)
# Follows the hash in a silent answer, which deletes a result but tells nothing if there is none.
_SILENT = b"?"
LEFT_OUT: Final = object()


def hash_of(codec: Codec, value: Any) -> bytes:
    """Return a hash that identifies the version of a left row; empty for no row."""
    return b"" if value is None else blake2b(codec.encode(value), digest_size=HASH_BYTES).digest()


def foreign_key(call: Call, key: Any, value: Any) -> Any:
    if value is None:
        return None
    return call.function(key, value) if call.takes_key else call.function(value)


class SubscribeOperator(Operator):
    """Sends references: forwards (foreign key, (left key as bytes, hash, instruction, partition)).
    The partition is the one of the task."""

    def __init__(self, operation: Subscribe, keys: RowFunctions, current: Current) -> None:
        """`keys` make the foreign key of a row, None for a row that is left out."""
        super().__init__()
        self._operation = operation
        self._keys = keys
        self._current = current

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_update

    def _on_update(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        if key is None:
            return
        operation = self._operation
        is_inner = operation.join is JoinKind.INNER
        before, now = self._keys.of_old(key, old), self._keys.of_new(key, new)
        data, version = operation.key.encode(key), hash_of(operation.value, new)
        partition = self._current.partition
        if before is not None and before != now:
            # In a left join, ResolveOperator emits a row without a foreign key by itself.
            leave = DELETE_AND_ANSWER if now is None and is_inner else DELETE
            self.forward(before, (data, version, leave, partition), time, headers)
        if now is not None:
            ask = ANSWER_IF_FOUND if is_inner and before is None else ANSWER
            self.forward(now, (data, version, ask, partition), time, headers)


class ReferencesOperator(Operator):
    """Keeps references and answers them: forwards (left key, (hash, right value or None,
    partition))."""

    def __init__(
        self, operation: References, store: KeyValueStore, right: Getter, parents: tuple[str, str]
    ) -> None:
        super().__init__()
        self._operation = operation
        self._store = store
        self._right = right
        self._parents = parents

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_reference if parent == self._parents[0] else self._on_right

    def _on_reference(
        self,
        key: Any,
        reference: tuple[bytes, bytes, int, int | None],
        time: int,
        headers: Headers | None,
    ) -> None:
        if key is None:
            return
        left, version, instruction, partition = reference
        data = self._operation.right_key.encode(key)
        is_kept = instruction in (ANSWER, ANSWER_IF_FOUND)
        self._store.put((data, left), (version, partition) if is_kept else None, time)
        if instruction == DELETE:
            return
        row = self._right(key)
        if row is not None:
            time = max(time, row[1])
        elif instruction == ANSWER_IF_FOUND:
            version += _SILENT
        value = None if row is None or not is_kept else row[0]
        self._answer(left, (version, value, partition), time, headers)

    def _on_right(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        if key is None:
            return
        data = self._operation.right_key.encode(key)
        prefix = self._store.keys.codec.encode((data, b""))[:-4]
        for (_, left), ((version, partition), _) in list(self._store.with_prefix(prefix)):
            self._answer(left, (version, new, partition), time, headers)

    def _answer(
        self, left: bytes, answer: tuple[bytes, Any, int | None], time: int, headers: Headers | None
    ) -> None:
        self.forward(self._operation.left_key.decode(left), answer, time, headers)


class ResolveOperator(Operator):
    """The joined table, in a store of its own. A row that is left out has no result."""

    def __init__(
        self,
        operation: Resolve,
        functions: tuple[RowFunctions, RowFunctions],
        store: KeyValueStore,
        left: Getter,
        parents: tuple[str, str],
    ) -> None:
        """`functions` make the foreign key of a left row, `LEFT_OUT` for one that is left out, and
        the results."""
        super().__init__()
        self._operation = operation
        self._keys, joiners = functions
        self._joiner = joiners.of_new
        self._store = store
        self._left = left
        self._parents = parents

    def get(self, key: Any) -> Row | None:
        return self._store.get(key)

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_answer if parent == self._parents[0] else self._on_left

    def _on_answer(
        self, key: Any, answer: tuple[bytes, Any, int | None], time: int, headers: Headers | None
    ) -> None:
        version, right, _ = answer
        row = self._left(key)
        left = None if row is None else row[0]
        if version[:HASH_BYTES] != hash_of(self._operation.value, left):
            return
        if len(version) > HASH_BYTES and self._store.get(key) is None:
            return
        has_result = left is not None and (
            right is not None or self._operation.join is not JoinKind.INNER
        )
        self._emit(key, self._joiner(key, left, right) if has_result else None, (time, headers))

    def _on_left(self, key: Any, new: Any, old: Any, time: int, headers: Headers | None) -> None:
        """Pad or delete a row without a foreign key in a left join: it refers to nothing."""
        if key is None or self._operation.join is JoinKind.INNER:
            return
        on = None if new is None else self._keys.of_new(key, new)
        if new is not None and on is None:
            self._emit(key, self._joiner(key, new, None), (time, headers))
        elif old is not None and (new is None or on is LEFT_OUT):
            self._emit(key, None, (time, headers))

    def _emit(self, key: Any, result: Any, when: tuple[int, Headers | None]) -> None:
        time, headers = when
        old = self._store.put(key, result, time)
        self.forward(key, result, None if old is None else old[0], time, headers)
