"""Reduce a failure inside Spark to one line that says what is wrong. No IO.

Spark wraps an error of a Python worker into a traceback, inside the message of a Java exception,
inside another one. A user has to see the last line of the innermost one.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.errors import MoldauError

_MOLDAU_ERROR: Final = re.compile(r"^\s*(?:moldau\.[\w.]+\.)(\w+): (.+)$", re.MULTILINE)
_TRACEBACK_END: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_SPARK_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_CAUSED_BY: Final = re.compile(r"Caused by: (?:[\w.$]+\.)?([\w$]+): (.+)")
_RAISED_BY_QUERY: Final = "USER_RAISED_EXCEPTION"
_WRAPPERS: Final = ("STREAM_FAILED", "PYTHON_EXCEPTION", "FAILED_EXECUTE_UDF", "TASK_WRITE_FAILED")
_HINTS: Final = {
    "COLUMN_ALREADY_EXISTS": "name each column once in transforms.sql: * has _topic, _key and the "
    "like too",
    "DUPLICATED_FIELD_NAME_IN_ARROW_STRUCT": "name each column once in transforms.sql: * has "
    "_topic, _key and the like too",
    "PATH_NOT_FOUND": "check the paths in the config",
    "UNRESOLVED_COLUMN": "check the columns in value.schema and transforms.sql",
    "UNRESOLVED_COLUMN.WITH_SUGGESTION": "check the columns in value.schema and transforms.sql",
    "PARSE_SYNTAX_ERROR": "check value.schema and transforms.sql",
    "USER_RAISED_EXCEPTION": "correct the data, or skip it with errors.tolerance=all and a dead "
    "letter queue",
    "CONCURRENT_STREAM_LOG_UPDATE": "another query uses this checkpoint: stop it",
}
_JAVA_IS_GONE: Final = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError")
_WORKER_TIMEOUT: Final = "Python worker failed to connect back"
_WORKER_TIMEOUT_LINE: Final = (
    "a Python process of Spark did not start within Spark's 10 s: the machine is too busy -> run "
    "less on it; the query continues from its checkpoint"
)
_JAVA_DIED: Final = re.compile(
    r"Answer from Java side is empty|Error while sending or receiving"
    r"|\AAn error occurred while calling [\w.$]+\s*\Z"
)
_JAVA_DIED_LINE: Final = (
    "Spark's Java process has died -> look for the kernel's out-of-memory killer, and give Java "
    "more memory with spark.conf.driver.memory; the query continues from its checkpoint"
)
_RESULT_TOO_LARGE: Final = re.compile(r"Total size of serialized results[^\n]*maxResultSize[^\n]*")
_RESULT_TOO_LARGE_HINT: Final = (
    " -> make batches smaller with max.offsets.per.trigger, or set spark.conf.driver.maxResultSize"
    " to 0 for no limit"
)
_SERVER_GONE_LINE: Final = (
    "the Spark Connect server is gone -> start it; the query continues from its checkpoint"
)


def is_worker_timeout(error: BaseException) -> bool:
    """Whether a Python process of Spark took longer to start than Spark waits.

    Spark waits 10 s, and no setting changes that. On a busy machine a second try can succeed.
    """
    return _WORKER_TIMEOUT in str(error)


def cause_with_hint(error: BaseException) -> str:
    """Return the line of `cause_of`. An arrow and what to do about it follow the cause."""
    cause = cause_of(error)
    if " -> " in cause:
        return cause
    if isinstance(error, MoldauError) or _MOLDAU_ERROR.search(str(error)):
        return f"{cause} -> correct this, and restart the connector"
    return f"{cause} -> the trace below says where"


def cause_of(error: BaseException) -> str:
    """Return the innermost cause of an error as one line, without Java's frames."""
    if isinstance(error, MoldauError):
        return str(error)
    text = str(error)
    if is_worker_timeout(error):
        return _WORKER_TIMEOUT_LINE
    if type(error).__name__ in _JAVA_IS_GONE or _JAVA_DIED.search(text):
        return _JAVA_DIED_LINE
    if "StatusCode.UNAVAILABLE" in text:
        return _SERVER_GONE_LINE
    too_large = _RESULT_TOO_LARGE.search(text)
    if too_large is not None:
        return _shorten(too_large[0].rstrip(". ")) + _RESULT_TOO_LARGE_HINT
    found = _MOLDAU_ERROR.findall(text) or _TRACEBACK_END.findall(text)
    if found and "Traceback" in text:
        return _shorten(found[-1][1])
    caused = _CAUSED_BY.findall(text)
    conditions = [each for each in _SPARK_CONDITION.findall(text) if each[0] not in _WRAPPERS]
    if conditions:
        name, words = conditions[-1] if len(conditions) > 1 and caused else conditions[0]
        hint = _HINTS.get(name)
        if name == _RAISED_BY_QUERY:
            words, name = words.partition(" SQLSTATE: ")[0], "raised by the query"
        return _shorten(f"{words} ({name})" + (f" -> {hint}" if hint else ""))
    if caused:
        return _shorten(f"{caused[-1][0]}: {caused[-1][1]}")
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _shorten(first)


def _shorten(line: str) -> str:
    return line.strip()[:500]
