"""One line out of what Spark says."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from moldau.connect.errors import ConnectError
from moldau.connect.task.diagnosis import trace_of
from moldau.connectors.spark.failures import cause_of, cause_with_hint
from moldau.connectors.spark.messages import (
    SINK,
    encode_message,
    parse_message,
    progress_message,
    record_lag,
)
from moldau.connectors.spark.runner import Runner
from moldau.connectors.spark.runner_client import RunnerClient
from moldau.connectors.spark.streaming_queries import StreamingQueries
from moldau.errors import ConfigError
from tests.connectors.spark.test_config import ORDERS_LAKE, config

LATE = "[STREAM_FAILED] Query terminated with exception: Python worker failed to connect back."

IN_WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: \
[PYTHON_EXCEPTION] An exception was thrown: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
moldau.errors.MoldauError: records are gone: set failOnDataLoss=false (lost='orders-0')
 SQLSTATE: 38000
\tat org.apache.spark.Frame(Frame.scala:1)"""

UNRESOLVED = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `amont` cannot be resolved. Did you \
mean `amount`? SQLSTATE: 42703; line 1 pos 7;
'Project ['amont]"""


TOO_LARGE = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "sinks.py", line 111, in write
    data = batch.toArrow()
py4j.protocol.Py4JJavaError: An error occurred while calling o99.getResult.
: org.apache.spark.SparkException: [EXCEPTION_THROWN] Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Total size of \
serialized results of 2 tasks (1100.3 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)
\tat org.apache.spark.Frame(Frame.scala:1)"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TOO_LARGE, "(1024.0 MiB) -> make batches smaller with max.offsets.per.trigger"),
        (TOO_LARGE, "Total size of serialized results of 2 tasks"),
        (IN_WORKER, "records are gone: set failOnDataLoss=false (lost='orders-0')"),
        (UNRESOLVED, "A column `amont` cannot be resolved."),
        ("java.lang.RuntimeException\n\tat x\nCaused by: java.io.IOException: No space\n", "No sp"),
        ("plain words", "plain words"),
        ("An error occurred while calling o55.isActive", "Java process has died"),
        ("StatusCode.UNAVAILABLE\n\tdetails", "Spark Connect server is gone"),
    ],
)
def test_the_innermost_cause_is_one_line(text: str, line: str) -> None:
    found = cause_of(RuntimeError(text))

    assert line in found
    assert "\n" not in found


def test_our_own_errors_stay_as_they_are() -> None:
    assert cause_of(ConfigError("no", key="x")) == "no (key='x')"


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ConfigError("no master"), "no master -> correct this, and restart the connector"),
        (RuntimeError(IN_WORKER), "(lost='orders-0') -> correct this, and restart the connector"),
        (RuntimeError(UNRESOLVED), "-> check the columns in value.schema and transforms.sql"),
        (ValueError("of the user's function"), "-> the trace below says where"),
        (
            RuntimeError("[DUPLICATED_FIELD_NAME_IN_ARROW_STRUCT] Got [_key, _key]."),
            "-> name each column once in transforms.sql: * has _topic, _key and the like too",
        ),
    ],
)
def test_a_failure_says_what_to_do_once(error: Exception, hint: str) -> None:
    found = cause_with_hint(error)

    assert found.endswith(hint)
    assert found.count(" -> ") == 1


def test_a_status_has_the_trace_of_the_runner_below_the_cause() -> None:
    client = RunnerClient("lake", SINK, config())
    trace = 'Traceback\n  File "lake.py", line 7, in clean'

    with pytest.raises(ConnectError) as raised:
        client.handle_message({"type": "failed", "cause": "bad -> correct it", "trace": trace})

    told = trace_of(raised.value)
    assert told.startswith("bad -> correct it\n")
    assert 'File "lake.py", line 7, in clean' in told


def test_progress_tells_the_lag() -> None:
    told = progress_message(
        {
            "name": "lake",
            "batchId": 3,
            "numInputRows": 10,
            "sources": [
                {
                    "endOffset": '{"orders":{"0":10},"$ids":{"orders":"Ab"}}',
                    "latestOffset": {"orders": {"0": 12, "1": 5}},
                }
            ],
        }
    )

    assert record_lag(parse_message(encode_message(told))) == 7
    assert told["end"] == {"orders": {"0": 10}}
    assert record_lag({"type": "progress"}) is None


def test_a_message_is_an_object_with_a_type() -> None:
    with pytest.raises(ValueError, match="with a type"):
        parse_message(b"[1]")


class _Ended:
    """A query that Spark has ended."""

    isActive = False
    recentProgress: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, text: str) -> None:
        self._text = text

    def exception(self) -> Exception:
        return RuntimeError(self._text)


class _Slow:
    """A job whose query the machine is too busy to start, so many times."""

    def __init__(self, times: int) -> None:
        self.starts = 0
        self._times = times

    def start(self, session: Any) -> dict[str, Any]:
        self.starts += 1
        return {"query": "lake"}

    def stop(self) -> None:
        """Nothing runs."""

    def poll(self) -> None:
        if self.starts <= self._times:
            queries = StreamingQueries(lambda message: None)
            queries.watch(_Ended(LATE))
            queries.poll()


class _SlowToStart(_Slow):
    """A job that the machine is too busy to plan: Spark asks a Python process for that too."""

    def start(self, session: Any) -> dict[str, Any]:
        if self._times:
            self._times -= 1
            raise RuntimeError(LATE)
        return super().start(session)


def _polled(monkeypatch: pytest.MonkeyPatch, job: _Slow, times: int) -> list[str]:
    """What a runner tells of this job."""
    told: list[str] = []
    monkeypatch.setattr("moldau.connectors.spark.runner.create_job", lambda *_: job)
    start = {"name": "lake", "config": ORDERS_LAKE}
    runner = Runner(start, lambda line: told.append(parse_message(line)["type"]))
    runner.start_job()
    for _ in range(times):
        runner.poll()
    return told


def test_a_query_that_a_busy_machine_could_not_start_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = _Slow(3)

    assert _polled(monkeypatch, job, 6) == ["started"] * 4
    assert job.starts == 4
    with pytest.raises(RuntimeError, match="failed to connect back"):
        _polled(monkeypatch, _Slow(100), 6)
    assert "the machine is too busy" in cause_of(RuntimeError(LATE))


def test_a_query_that_a_busy_machine_could_not_plan_is_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _polled(monkeypatch, _SlowToStart(5), 1) == ["started"]
    with pytest.raises(RuntimeError, match="failed to connect back"):
        _polled(monkeypatch, _SlowToStart(6), 1)


def test_other_ends_of_a_query_are_raised_at_once() -> None:
    queries = StreamingQueries(lambda message: None)
    queries.watch(_Ended("No space"))

    with pytest.raises(RuntimeError, match="No space"):
        queries.poll()
