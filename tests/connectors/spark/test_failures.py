"""One line out of what Spark says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from moldau.connect.errors import ConnectError
from moldau.connect.task.diagnosis import trace_of
from moldau.connectors.spark.failures import (
    cause_in_output,
    cause_of,
    cause_with_hint,
    end_of_runner,
    is_end_of_java,
    is_permanent,
)
from moldau.connectors.spark.messages import (
    SINK,
    SKIPPED,
    encode_message,
    parse_message,
    progress_message,
    record_lag,
)
from moldau.connectors.spark.query import StreamingQueries
from moldau.connectors.spark.runner import Runner
from moldau.connectors.spark.runner_client import RunnerClient
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable
from tests.connectors.spark.orders_lake import ORDERS_LAKE, config

GATEWAY = "Java gateway process exited before sending its port number. (JAVA_GATEWAY_EXITED)"
STOPPED = "IllegalStateException: Cannot call methods on a stopped SparkContext. -> the trace"
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


PARSED_MASTER = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'spork'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:1)"""

NO_HADOOP = [
    "Exception in thread \"main\" org.apache.spark.SparkException: When running with master 'yarn' "
    "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment.",
    "\tat org.apache.spark.deploy.SparkSubmitArguments.error(SparkSubmitArguments.scala:1)",
]
GIVEN_UP = [
    "26/11/26 05:40:00 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: "
    "All masters are unresponsive! Giving up.",
    "26/11/26 05:40:01 ERROR Utils: Uncaught exception in thread stop-spark-context",
]
BAD_MEMORY = [
    "26/11/26 05:40:00 WARN NativeCodeLoader: Unable to load native-hadoop library",
    "Invalid maximum heap size: -Xmxbanana",
    "Error: Could not create the Java Virtual Machine.",
    "Error: A fatal exception has occurred. Program will exit.",
]


TOO_LARGE = """[STREAM_FAILED] Query terminated with exception: Traceback (most recent call last):
  File "sinks.py", line 111, in write
    data = batch.toArrow()
py4j.protocol.Py4JJavaError: An error occurred while calling o99.getResult.
: org.apache.spark.SparkException: [EXCEPTION_THROWN] Exception thrown in awaitResult:
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Total size of \
serialized results of 2 tasks (1100.3 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)
\tat org.apache.spark.Frame(Frame.scala:1)"""


REFUSED = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAUTHENTICATED
\tdetails = "Invalid token"
\tdebug_error_string = "UNKNOWN:Error received from peer"
>"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TOO_LARGE, "(1024.0 MiB) -> make batches smaller with max.offsets.per.trigger"),
        (TOO_LARGE, "Total size of serialized results of 2 tasks"),
        (IN_WORKER, "records are gone: set fail.on.data.loss=false (lost='orders-0')"),
        (PARSED_MASTER, "SparkException: Could not parse Master URL: 'spork'"),
        (UNRESOLVED, "A column `amont` cannot be resolved."),
        ("java.lang.RuntimeException\n\tat x\nCaused by: java.io.IOException: No space\n", "No sp"),
        ("plain words", "plain words"),
        ("An error occurred while calling o55.isActive", "Java process has died"),
        ("StatusCode.UNAVAILABLE\n\tdetails", "Spark Connect server is gone"),
        (REFUSED, "the Spark Connect server answers UNAUTHENTICATED: Invalid token"),
    ],
)
def test_the_innermost_cause_is_one_line(text: str, line: str) -> None:
    found = cause_of(RuntimeError(text))

    assert line in found
    assert "\n" not in found


@pytest.mark.parametrize(
    ("lines", "cause", "hint"),
    [
        (NO_HADOOP, "SparkException: When running with master 'yarn'", "set HADOOP_CONF_DIR"),
        (GIVEN_UP, "runner ended: StandaloneSchedulerBackend: App", "master of the same version"),
        (BAD_MEMORY, "Invalid maximum heap size: -Xmxbanana", "correct spark.conf.driver.memory"),
        (["ModuleNotFoundError: No module named 'moldau'"], "No module named", "worker's log"),
        ([], "said nothing", "look at the worker's log"),
    ],
)
def test_the_end_of_a_runner_has_the_cause_that_it_printed(
    lines: list[str], cause: str, hint: str
) -> None:
    told = end_of_runner(lines)

    assert cause in told
    assert hint in told.partition(" -> ")[2]


@pytest.mark.parametrize(
    ("cause", "lines", "told"),
    [
        (STOPPED, GIVEN_UP, "All masters are unresponsive! Giving up. -> check that"),
        (STOPPED, [], STOPPED),
        (GATEWAY, BAD_MEMORY, "Invalid maximum heap size"),
    ],
)
def test_what_java_printed_is_the_cause_of_its_end(cause: str, lines: list[str], told: str) -> None:
    assert is_end_of_java(cause)
    assert told in cause_in_output(cause, lines)
    assert not is_end_of_java("No space left")


class _Program:
    """A transport of a program that prints, and ends without a message."""

    def __init__(self, program: str, *, is_merged: bool) -> None:
        self._program = program
        self._errors = subprocess.STDOUT if is_merged else subprocess.PIPE

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", self._program]
        output = subprocess.PIPE if self._errors == subprocess.STDOUT else subprocess.DEVNULL
        return subprocess.Popen(  # noqa: S603 - this interpreter
            command, stdout=output, stderr=self._errors
        )

    def lines(self) -> Iterator[bytes]:
        yield from ()

    def write(self, line: bytes) -> None:
        """Nothing reads it."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_status_has_what_a_runner_printed_before_it_ended(
    monkeypatch: pytest.MonkeyPatch, is_merged: bool
) -> None:
    program = f"import sys; print({BAD_MEMORY[1]!r}, file=sys.stderr)"
    transport = _Program(program, is_merged=is_merged)
    monkeypatch.setattr(
        "moldau.connectors.spark.runner_client.make_transport", lambda *_: transport
    )
    client = RunnerClient("lake", SINK, config())
    client.start({"type": "start"})

    with pytest.raises(ConnectError, match="the Spark runner ended: Invalid maximum heap size"):
        client.poll()
    with pytest.raises(ConnectError, match="the Spark runner ended: Invalid maximum heap size"):
        client.handle_message({"type": "failed", "cause": GATEWAY, "trace": ""})
    client.stop()


def test_our_own_errors_stay_as_they_are() -> None:
    assert cause_of(ConfigError("no", key="x")) == "no (key='x')"


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ConfigError("no master"), "no master -> correct this, and restart the connector"),
        (RuntimeError(IN_WORKER), "NAME --reset`, or choose another checkpoint.location"),
        (
            RuntimeError(IN_WORKER.replace("failOnDataLoss=false", "x")),
            "-> correct this; the connector tries again by itself",
        ),
        (Unavailable("no master"), "-> correct this; the connector tries again by itself"),
        (RuntimeError(PARSED_MASTER), "spark://host:7077, k8s://... or yarn"),
        (RuntimeError("All masters are unresponsive! Giving up."), "of the same version"),
        (
            RuntimeError("[INVALID_DRIVER_MEMORY] System memory 1 must be at least 2."),
            "-> correct spark.conf.driver.memory: 1g",
        ),
        (
            RuntimeError("ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem"),
            "with the version of Spark's Hadoop",
        ),
        (
            RuntimeError("[BATCH_METADATA_NOT_FOUND] Unable to find batch /c/offsets/3."),
            "NAME --reset`, or choose another checkpoint.location",
        ),
        (
            RuntimeError("Cannot restart streaming query with stateful operators that changed"),
            "NAME --reset`, or choose another checkpoint.location",
        ),
        (
            RuntimeError("there is no unique or exclusion constraint matching the ON CONFLICT"),
            "-> create a unique index on the columns of sink.keys",
        ),
        (
            RuntimeError(
                "HTTPConnectionPool(host='c', port=1): Max retries exceeded with url: /v1"
            ),
            "a Schema Registry is value.registry",
        ),
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


class AnalysisException(Exception):
    """As PySpark names it."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("the rows lack columns"), True),
        (Unavailable("no master"), False),
        (RuntimeError("Traceback: \nmoldau.errors.ConfigError: the table lacks columns"), True),
        (RuntimeError("Traceback: \nmoldau.spark.reach.Unavailable: no connection"), False),
        (RuntimeError(IN_WORKER), True),
        (RuntimeError("[USER_RAISED_EXCEPTION] a value does not fit SQLSTATE: P0001"), True),
        (AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] x"), True),
        (AnalysisException("[TABLE_OR_VIEW_NOT_FOUND] x"), False),
        (RuntimeError("All masters are unresponsive! Giving up."), False),
        (ConnectionRefusedError("x"), False),
    ],
)
def test_only_what_the_config_decides_is_permanent(error: Exception, expected: bool) -> None:
    assert is_permanent(error) is expected


@pytest.mark.parametrize("code", [-9, 137])
def test_a_runner_that_a_signal_killed_is_named_so(code: int) -> None:
    lines = ["Fatal Python error: faulthandler", "Extension modules: numpy"]

    assert end_of_runner(lines, code).startswith("the Spark runner was killed by signal 9 (SIGKILL")
    assert "faulthandler" in end_of_runner(lines, 1)
    assert "faulthandler" in end_of_runner(lines)


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
                    "endOffset": '{"orders":{"0":10},"$ids":{"orders":"Ab"},'
                    '"$start":{"orders":{"0":4},"$ids":{"orders":"Ab"}}}',
                    "latestOffset": {"orders": {"0": 12, "1": 5}},
                }
            ],
        }
    )

    assert record_lag(parse_message(encode_message(told))) == 7
    assert told["end"] == {"orders": {"0": 10}}
    assert record_lag({"type": "progress"}) is None


def test_a_spark_connect_server_leaves_the_totals_of_a_progress_to_its_client() -> None:
    source = {"numInputRows": 7, "inputRowsPerSecond": 2.5, "processedRowsPerSecond": 3.5}
    totals = dict.fromkeys(source)

    told = progress_message({"name": "lake", "batchId": 0, **totals, "sources": [source, source]})

    assert told["rows"] == 14
    assert (told["input_rows_per_second"], told["processed_rows_per_second"]) == (5.0, 7.0)


def test_skipped_records_are_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    client = RunnerClient("lake", SINK, config())
    client.handle_message({"type": "started", "query": "lake", "guarantee": "none"})
    progress = {"name": "lake", "batchId": 3, "numInputRows": 10}
    for count in (0, 2):
        metric = {SKIPPED: {"count": count, "first": "orders-0-17"}}
        client.handle_message(progress_message({**progress, "observedMetrics": metric}))

    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert line == (
        "lake: batch 3: 2 records that do not fit were skipped, the first is orders-0-17"
    )


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
