"""Operators that take the records of a batch together: functions of batches, and async calls.

Records wait until the whole batch of the task has passed the operators before. Then the function is
called for all of them, and they come out in the order they went in. The task continues only when
all are done, so that its positions never pass an unfinished record. A failed call is repeated as
its policy says; the others of the batch wait for it.

A record can also fail in a step behind. Then it is that step's policy that counts. To try the
record again is to pass it on again, with the result that it has: the calls of the records after it
are done, so to take it from its source again would break their order. The records after it wait.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

from moldau.deferred import dataclass
from moldau.streams.engine.batches import Headers
from moldau.streams.engine.operator import Operator
from moldau.streams.plan.operations import AsyncStep, MapBatch
from moldau.streams.plan.policies import Policy
from moldau.streams.state.journal import Journal


@dataclass(slots=True)
class WaitingRecord:
    """A waiting record. `index` is the index of the input record that it was made from."""

    key: Any
    value: Any
    time: int
    headers: Headers | None
    index: int
    result: Any = None
    error: Exception | None = None
    is_begun: bool = False
    is_done: bool = False
    attempts: int = 0
    """How often its function was called again."""
    attempts_behind: dict[str, int] = field(default_factory=dict)
    """How often it was passed on again, by the operator that failed."""
    due_ms: int | None = None
    """When its function is called again, or when it is passed on again."""
    has_failed_behind: bool = False
    """Whether its function is done, and a step behind has failed on it."""


@dataclass(frozen=True, slots=True)
class AsyncCall:
    """A coroutine that the worker or the test driver awaits, before it calls `finish`."""

    coroutine: Coroutine[Any, Any, Any]
    record: WaitingRecord

    def finish(self, result: Any, error: Exception | None = None) -> None:
        self.record.result = result
        self.record.error = error
        self.record.is_done = True


def finish_all(calls: Sequence[AsyncCall], results: Sequence[Any]) -> None:
    """Finish calls with what each has returned or raised. What is no `Exception`, such as a
    cancellation, is raised."""
    for call, result in zip(calls, results, strict=True):
        if isinstance(result, Exception):
            call.finish(None, result)
        elif isinstance(result, BaseException):
            raise result
        else:
            call.finish(result)


class OnError(Protocol):
    """What becomes of records that fail. `index` is the index of the input record."""

    def settle(self, operator: str, index: int, error: Exception) -> None:
        """Leave out a record without attempts left. Raise if the policy is to fail."""

    def retry_or_settle(self, operator: str, row: WaitingRecord, error: Exception) -> int | None:
        """Return when to pass a record on again; None if it is left out. Raise if the policy of the
        step that failed is to fail. That step is `operator` itself if no step behind it has
        failed."""


class DeferredOperator(Operator):
    """An operator that lets records wait for the end of the batch. The task sets `index`, which
    returns the index of the input record that runs."""

    def __init__(self, name: str, policy: Policy) -> None:
        super().__init__()
        self.name = name
        self._policy = policy
        self.index: Callable[[], int] = lambda: 0
        self.rows: list[WaitingRecord] = []
        self.passing: WaitingRecord | None = None
        """The record that is being passed on."""
        self.journal = Journal(is_on=False)

    def entry(self, parent: str) -> Callable[..., None]:
        return self._on_record

    def _on_record(self, key: Any, value: Any, time: int, headers: Headers | None) -> None:
        self.rows.append(WaitingRecord(key, value, time, headers, self.index()))
        if self.undo is not None:
            self.undo.append((self.rows.pop,))

    def passing_index(self) -> int:
        """Return the index of the input record of what is being passed on."""
        return 0 if self.passing is None else self.passing.index

    def begin(self, now_ms: int) -> list[AsyncCall]:
        """Call the function for the waiting records. Await the returned calls before `finish`."""
        for row in self.rows:
            if row.due_ms is not None and row.due_ms <= now_ms:
                row.due_ms = None
                if not row.has_failed_behind:
                    row.error, row.is_done, row.is_begun = None, False, False
        return self._call_for([row for row in self.rows if not row.is_done])

    def _call_for(self, rows: Sequence[WaitingRecord]) -> list[AsyncCall]:
        raise AssertionError(f"{type(self).__name__} calls nothing")

    def _plan_attempts(self, now_ms: int) -> None:
        """Set the time of the next attempt of each failed record that has attempts left."""
        for row in self.rows:
            if row.error is None or row.due_ms is not None:
                continue
            if row.attempts < self._policy.retries:
                row.due_ms = now_ms + self._policy.backoff_ms * 2**row.attempts
                row.attempts += 1

    def finish(self, on_error: OnError, now_ms: int) -> bool:
        """Pass on all records in order and return True; return False while one is unfinished, or
        waits to be passed on again."""
        self._plan_attempts(now_ms)
        if not all(row.is_done and row.due_ms is None for row in self.rows):
            return False
        rows, self.rows = self.rows, []
        for at, row in enumerate(rows):
            self.passing = row
            if row.error is not None:
                on_error.settle(self.name, row.index, row.error)
                continue
            self.journal.clear()
            try:
                self._pass_on(row)
            except Exception as error:
                self.journal.roll_back()
                # Also what is raised may pass, such as the damage of a table that is repaired.
                self.rows = rows[at:]
                if self._waits(row, error, on_error):
                    return False
                self.rows = []
        return True

    def _waits(self, row: WaitingRecord, error: Exception, on_error: OnError) -> bool:
        """Whether a record that has failed behind is passed on again later."""
        row.has_failed_behind = True
        row.due_ms = on_error.retry_or_settle(self.name, row, error)
        return row.due_ms is not None

    def _pass_on(self, row: WaitingRecord) -> None:
        self.forward(row.key, row.result, row.time, row.headers)


class MapBatchOperator(DeferredOperator):
    """Calls a function with the values of a batch; it must return as many values."""

    def __init__(self, operation: MapBatch, name: str, policy: Policy) -> None:
        super().__init__(name, policy)
        self._function = operation.function

    def _call_for(self, rows: Sequence[WaitingRecord]) -> list[AsyncCall]:
        if not rows:
            return []
        try:
            results = self._called([row.value for row in rows])
        except Exception as error:
            if len(rows) == 1:
                rows[0].error, rows[0].is_done = error, True
                return []
            for row in rows:
                self._call_alone(row)
            return []
        for row, result in zip(rows, results, strict=True):
            row.result, row.is_done = result, True
        return []

    def _call_alone(self, row: WaitingRecord) -> None:
        """Call the function for one record of a failed batch, to find the records that fail."""
        try:
            (row.result,) = self._called([row.value])
        except Exception as error:
            row.error = error
        row.is_done = True

    def _called(self, values: list[Any]) -> Sequence[Any]:
        results: Any = self._function(values)
        listed: list[Any] = results.tolist() if hasattr(results, "tolist") else list(results)
        if len(listed) != len(values):
            raise ValueError(
                f"map_batch: it returned {len(listed)} values for {len(values)}; "
                "there must be one for each"
            )
        return listed


def _pair(result: Any) -> tuple[Any, Any]:
    key, value = result
    return key, value


_SHAPES: Final[Mapping[str, Callable[[Any], Any]]] = {"map": _pair, "flat_map": list}
"""What is made of a result, so that it can be passed on more than once. What has another shape is a
failed call."""


async def _shaped(call: Coroutine[Any, Any, Any], shape: Callable[[Any], Any]) -> Any:
    return shape(await call)


class AsyncOperator(DeferredOperator):
    """Calls an async function for each record; the calls of a batch run concurrently."""

    def __init__(self, operation: AsyncStep, name: str, policy: Policy) -> None:
        super().__init__(name, policy)
        self._operation = operation

    def _call_for(self, rows: Sequence[WaitingRecord]) -> list[AsyncCall]:
        calls = [self._call(row) for row in rows if not row.is_begun]
        for row in rows:
            row.is_begun = True
        return calls

    def _call(self, row: WaitingRecord) -> AsyncCall:
        call = self._operation.call
        arguments = (row.key, row.value) if call.takes_key else (row.value,)
        named = {"headers": tuple(row.headers or ())} if call.takes_headers else {}
        coroutine = call.function(*arguments, **named)
        shape = _SHAPES.get(self._operation.what)
        return AsyncCall(coroutine if shape is None else _shaped(coroutine, shape), row)

    def _pass_on(self, row: WaitingRecord) -> None:
        key, value, result = row.key, row.value, row.result
        match self._operation.what:
            case "map_values":
                self.forward(key, result, row.time, row.headers)
            case "map":
                self.forward(*result, row.time, row.headers)
            case "select_key":
                self.forward(result, value, row.time, row.headers)
            case "flat_map":
                for item in result:
                    self.forward(key, item, row.time, row.headers)
            case "filter" | "filter_not" as what:
                if bool(result) is (what == "filter"):
                    self.forward(key, value, row.time, row.headers)
            case what:
                assert what == "peek"
                self.forward(key, value, row.time, row.headers)
