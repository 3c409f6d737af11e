"""From a failure inside Spark to one line that says what is wrong. No IO.

Spark wraps an error of a Python worker into a traceback inside a Java exception's message inside
another one. What the user has to see is the last line of the innermost one.
"""

from __future__ import annotations

import re
from typing import Final

from moldau.errors import MoldauError

_OURS: Final = re.compile(r"^\s*(?:moldau\.[\w.]+\.)(\w+): (.+)$", re.MULTILINE)
_TRACEBACK_END: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_SPARK_CLASS: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_CAUSED: Final = re.compile(r"Caused by: (?:[\w.$]+\.)?([\w$]+): (.+)")
_RAISED: Final = "USER_RAISED_EXCEPTION"
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
    "USER_RAISED_EXCEPTION": "correct the data, or pass over it with errors.tolerance=all and a "
    "dead letter queue",
    "CONCURRENT_STREAM_LOG_UPDATE": "another query uses this checkpoint: stop it",
}
_JAVA_IS_GONE: Final = ("Py4JNetworkError", "ConnectionRefusedError", "ConnectionResetError")
_LATE_WORKER: Final = "Python worker failed to connect back"
_LATE: Final = (
    "a Python process of Spark did not start within Spark's 10 s: the machine is too busy -> leave "
    "it more, the query goes on from its checkpoint"
)
_JAVA_DIED: Final = re.compile(
    r"Answer from Java side is empty|Error while sending or receiving"
    r"|\AAn error occurred while calling [\w.$]+\s*\Z"
)
_DIED: Final = (
    "Spark's Java process has died -> look for the kernel's out-of-memory killer, and give it more "
    "with spark.conf.driver.memory; the query goes on from its checkpoint"
)
_TOO_LARGE: Final = re.compile(r"Total size of serialized results[^\n]*maxResultSize[^\n]*")
_SMALLER: Final = (
    " -> make batches smaller with max.offsets.per.trigger, or set spark.conf.driver.maxResultSize"
    " to 0 for no limit"
)
_SERVER_GONE: Final = (
    "the Spark Connect server is gone -> start it; the query goes on from its checkpoint"
)


def is_late_worker(error: BaseException) -> bool:
    """Whether a Python process of Spark took longer to start than Spark waits: 10 s, which cannot
    be set. On a busy machine it only has to be tried again."""
    return _LATE_WORKER in str(error)


def hinted_cause_of(error: BaseException) -> str:
    """The same, with what to do about it behind an arrow."""
    cause = cause_of(error)
    if " -> " in cause:
        return cause
    if isinstance(error, MoldauError) or _OURS.search(str(error)):
        return f"{cause} -> correct this, and restart the connector"
    return f"{cause} -> the trace below says where"


def cause_of(error: BaseException) -> str:
    """One line, without Java frames."""
    if isinstance(error, MoldauError):
        return str(error)
    text = str(error)
    if is_late_worker(error):
        return _LATE
    if type(error).__name__ in _JAVA_IS_GONE or _JAVA_DIED.search(text):
        return _DIED
    if "StatusCode.UNAVAILABLE" in text:
        return _SERVER_GONE
    too_large = _TOO_LARGE.search(text)
    if too_large is not None:
        return _short(too_large[0].rstrip(". ")) + _SMALLER
    found = _OURS.findall(text) or _TRACEBACK_END.findall(text)
    if found and "Traceback" in text:
        return _short(found[-1][1])
    caused = _CAUSED.findall(text)
    named = [each for each in _SPARK_CLASS.findall(text) if each[0] not in _WRAPPERS]
    if named:
        name, words = named[-1] if len(named) > 1 and caused else named[0]
        hint = _HINTS.get(name)
        if name == _RAISED:
            words, name = words.partition(" SQLSTATE: ")[0], "raised by the query"
        return _short(f"{words} ({name})" + (f" -> {hint}" if hint else ""))
    if caused:
        return _short(f"{caused[-1][0]}: {caused[-1][1]}")
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _short(first)


def _short(line: str) -> str:
    return line.strip()[:500]
