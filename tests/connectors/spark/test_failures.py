"""One line out of what Spark says."""

from __future__ import annotations

import pytest

from moldau.connectors.spark.failures import cause_of
from moldau.connectors.spark.messages import dump, lag_of, parse, progress_of
from moldau.errors import ConfigError

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


@pytest.mark.parametrize(
    ("text", "line"),
    [
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


def test_progress_tells_the_lag() -> None:
    told = progress_of(
        {
            "name": "lake",
            "batchId": 3,
            "numInputRows": 10,
            "sources": [
                {"endOffset": '{"orders":{"0":10}}', "latestOffset": {"orders": {"0": 12, "1": 5}}}
            ],
        }
    )

    assert lag_of(parse(dump(told))) == 7
    assert lag_of({"type": "progress"}) is None


def test_a_message_is_an_object_with_a_type() -> None:
    with pytest.raises(ValueError, match="with a type"):
        parse(b"[1]")
