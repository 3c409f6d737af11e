"""One line for a failure of Spark's, without the frames of Java and of Python."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from moldau.streams.spark.waiting import SlowPython

JAVA_DIED: Final = (
    "Spark's Java process has died: look for the kernel's out-of-memory killer, or for what "
    "stopped it; give Java more memory with spark.conf.driver.memory; started again, the app goes "
    "on from its checkpoint"
)
_GONE: Final = ("Py4JNetworkError",)
_NO_ANSWER: Final = re.compile(
    r"Answer from Java side is empty|Error while (?:sending or )?receiving"
    r"|\AAn error occurred while calling [\w.$]+\s*\Z"
)
_OF_CALLS: Final = ("java_gateway", "clientserver")
"""The modules of py4j that call Java."""
_SLOW: Final = "Python worker failed to connect back"
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")


def first_line(error: BaseException) -> str:
    """Return the line with the cause."""
    text = str(error)
    if is_end_of_java(error):
        return JAVA_DIED
    missing = _NO_MODULE.search(text)
    if missing is not None:
        return missing_package(missing[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reported = [line for line in lines if line.startswith("moldau.") or "Error:" in line]
    return (reported or lines or [type(error).__name__])[-1 if reported else 0]


def is_end_of_java(error: BaseException) -> bool:
    """Whether a call of Java failed because its process is gone. The driver has no other connection
    whose errors are not a MoldauError."""
    is_of_connection = isinstance(error, ConnectionError) or type(error).__name__ in _GONE
    return is_of_connection or _NO_ANSWER.search(str(error)) is not None


@contextmanager
def without_java() -> Iterator[None]:
    """End something of Spark's: if Java is gone, it has ended already."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if not is_end_of_java(error):
            raise


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """Leave out what py4j logs of a call that Java does not answer, with all frames and partly as
    the root: the call raises an error as well."""
    loggers = [logging.getLogger(name) for name in (None, *(f"py4j.{each}" for each in _OF_CALLS))]
    for each in loggers:
        each.addFilter(_is_shown)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(_is_shown)


def _is_shown(record: logging.LogRecord) -> bool:
    return record.module not in _OF_CALLS or record.levelno < logging.ERROR


@contextmanager
def slow_python() -> Iterator[None]:
    """Raise SlowPython if Spark gives up on a Python process that it starts."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if _SLOW not in str(error):
            raise
        raise SlowPython(
            "a Python process of Spark did not start within Spark's 10 s: the machine is too busy"
        ) from None


def missing_package(name: str) -> str:
    """Return what to do about a package that executors lack."""
    return (
        f"the executors have no package {name}: install it on each machine, for the Python of "
        "PYSPARK_PYTHON, which must be of the driver's version"
    )
