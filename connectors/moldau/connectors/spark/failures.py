"""Reduce a failure inside Spark to one line that says what is wrong. No IO.

Spark wraps an error of a Python worker into a traceback, inside the message of a Java exception,
inside another one. A user has to see the last line of the innermost one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from moldau.errors import ConfigError, MoldauError
from moldau.spark.reach import Unavailable

_MOLDAU_ERROR: Final = re.compile(r"^\s*(?:moldau\.[\w.]+\.)(\w+): (.+)$", re.MULTILINE)
_TRACEBACK_END: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_SPARK_CONDITION: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_CAUSED_BY: Final = re.compile(r"Caused by: (?:[\w.$]+\.)?([\w$]+): (.+)")
_RAISED_BY_QUERY: Final = "USER_RAISED_EXCEPTION"
_WRAPPERS: Final = ("STREAM_FAILED", "PYTHON_EXCEPTION", "FAILED_EXECUTE_UDF", "TASK_WRITE_FAILED")
_BEGIN_ANEW: Final = (
    "to begin anew, stop the connector and call `moldau connect offsets NAME --reset`, or choose "
    "another checkpoint.location"
)
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
    "INVALID_DRIVER_MEMORY": "correct spark.conf.driver.memory: 1g",
    "INVALID_EXECUTOR_MEMORY": "correct spark.conf.executor.memory: 1g",
    "BATCH_METADATA_NOT_FOUND": f"a file of the checkpoint is missing: {_BEGIN_ANEW}",
}
_HINTS_BY_TEXT: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (
            "All masters are unresponsive",
            "check that spark.master is a Spark master of the same version",
        ),
        (
            "Could not parse Master URL|Master must either be yarn or start with",
            "correct spark.master: local[2], spark://host:7077, k8s://... or yarn",
        ),
        (
            "HADOOP_CONF_DIR or YARN_CONF_DIR",
            "set HADOOP_CONF_DIR in the worker's environment, to the directory with yarn-site.xml",
        ),
        (
            r"Invalid (?:maximum|initial) heap size|heap size set to a larger|Could not reserve "
            r"enough space|System memory \d+ must be at least",
            "correct spark.conf.driver.memory: 1g",
        ),
        (
            r"S3AFileSystem not found|No FileSystem for scheme|"
            r"ClassNotFoundException: (?:Class )?org\.apache\.hadoop\.fs\.",
            "add the jar of this file system with spark.packages; for s3a:// it is "
            "org.apache.hadoop:hadoop-aws:VERSION, with the version of Spark's Hadoop",
        ),
        (
            "Cannot restart streaming query with stateful operators"
            "|STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA|STATE_STORE_\\w*SCHEMA_NOT_COMPATIBLE",
            "the query was changed and does not fit its checkpoint: undo the change, or "
            f"{_BEGIN_ANEW}",
        ),
        (
            "no unique or exclusion constraint matching the ON CONFLICT"
            "|ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE",
            "create a unique index on the columns of sink.keys",
        ),
        (
            r"(?:HTTPS?ConnectionPool|HTTPS?Connection)\(.*(?:Max retries|refused|resolve)",
            "start the service at this address, or correct it: an Iceberg catalog is "
            "sink.option.uri or source.option.uri, a Schema Registry is value.registry",
        ),
    )
)
"""What to do about an error with such a text, if it has no Spark condition with a hint."""
_WRONG_QUERY: Final = ("AnalysisException", "ParseException")
"""Spark's errors of a query that it refuses before it runs."""
_MAY_COME: Final = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "PATH_ALREADY_EXISTS")
"""Conditions of such errors that something beside the config can end."""
_LOST: Final = "failOnDataLoss=false"
_LOST_HERE: Final = "fail.on.data.loss=false"
"""The connector's key for that option of the data source."""
_JAVA_ERROR: Final = re.compile(
    r"^An error occurred while calling [^\n]+\n: (?:[\w.$]+\.)?([\w$]+)(?:: ([^\n]+))?",
    re.MULTILINE,
)
_JAVA_NOT_STARTED: Final = "JAVA_GATEWAY_EXITED"
_STOPPED: Final = "Cannot call methods on a stopped SparkContext"
_NO_CAUSE: Final = re.compile(
    r"\s+(?:at |\.\.\. \d+ more)|\s*$|\S* ?\S* ?(?:TRACE|DEBUG|INFO|WARN) |WARNING:|Using |Setting "
    r"|:: |To adjust logging|Picked up |Error: (?:Could not create|A fatal exception)"
    r"|Error occurred during initialization"
)
"""Lines before the end of a process that do not say why it ended."""
_NAMES_ERROR: Final = re.compile(r"Exception|Error|Invalid|invalid|error:")
_LOG_FRONT: Final = re.compile(r"^\S+ \S+ (?:WARN|ERROR) ")
_JAVA_FRONT: Final = re.compile(
    r'^(?:Exception in thread "[^"]*"|Caused by:)? ?(?:[\w$]+\.)+([\w$]+): '
)
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
_SIGNALS: Final = {6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
_KILLED_HINT: Final = (
    "look for the kernel's out-of-memory killer, or for what stopped it; the query continues from "
    "its checkpoint"
)
_RESULT_TOO_LARGE: Final = re.compile(r"Total size of serialized results[^\n]*maxResultSize[^\n]*")
_RESULT_TOO_LARGE_HINT: Final = (
    " -> make batches smaller with max.offsets.per.trigger, or set spark.conf.driver.maxResultSize"
    " to 0 for no limit"
)
_OF_THE_SERVER: Final = re.compile(
    r'RPC that terminated with:\s+status = StatusCode\.(\w+)\s+details = "([^\n]*)"'
)
_SERVER_GONE_LINE: Final = (
    "the Spark Connect server is gone -> start it; the query continues from its checkpoint"
)

_FILE: Final = re.compile(r"Encountered error while reading file (\S+?)\.\s")
_MALFORMED: Final = re.compile(r"\[MALFORMED_\w+[\w.]*\]")


def is_worker_timeout(error: BaseException) -> bool:
    """Whether a Python process of Spark took longer to start than Spark waits.

    Spark waits 10 s, and no setting changes that. On a busy machine a second try can succeed.
    """
    return _WORKER_TIMEOUT in str(error)


def is_permanent(error: BaseException) -> bool:
    """Whether each further try with the same config fails as this one: the config is wrong, the
    query is, or it was stopped at a record that does not fit."""
    if isinstance(error, MoldauError):
        return isinstance(error, ConfigError) and not isinstance(error, Unavailable)
    text = str(error)
    if is_worker_timeout(error) or type(error).__name__ in _JAVA_IS_GONE:
        return False
    if _LOST in text or _RAISED_BY_QUERY in text:
        return True
    found = _MOLDAU_ERROR.findall(text)
    if found:
        return bool(found[-1][0] == ConfigError.__name__)
    conditions = {each for each, _ in _SPARK_CONDITION.findall(text)}
    return type(error).__name__ in _WRONG_QUERY and conditions.isdisjoint(_MAY_COME)


def cause_with_hint(error: BaseException) -> str:
    """Return the line of `cause_of`. An arrow and what to do about it follow the cause."""
    cause = cause_of(error)
    if " -> " in cause:
        return cause
    if _LOST_HERE in cause:
        return f"{cause} -> or, {_BEGIN_ANEW}"
    hint = _hint_in(str(error))
    if hint is not None:
        return f"{cause} -> {hint}"
    if is_permanent(error):
        return f"{cause} -> correct this, and restart the connector"
    if isinstance(error, MoldauError) or _MOLDAU_ERROR.search(str(error)):
        return f"{cause} -> correct this; the connector tries again by itself"
    return f"{cause} -> the trace below says where"


def cause_of(error: BaseException) -> str:
    """Return the innermost cause of an error as one line, without Java's frames."""
    text = str(error).replace(_LOST, _LOST_HERE)
    if isinstance(error, MoldauError):
        return text
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
    java = _JAVA_ERROR.search(text)
    if java is not None:
        return _shorten(f"{java[1]}: {java[2]}" if java[2] else java[1])
    refused = _OF_THE_SERVER.search(text)
    if refused is not None:
        return _shorten(f"the Spark Connect server answers {refused[1]}: {refused[2]}")
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return _shorten(first)


def is_end_of_java(cause: str) -> bool:
    """Whether a cause says only that Java has ended. What Java printed may say why."""
    return cause == _JAVA_DIED_LINE or any(each in cause for each in (_JAVA_NOT_STARTED, _STOPPED))


def cause_in_output(cause: str, lines: Sequence[str]) -> str:
    """Return why Java has ended, by the last lines that it printed; the cause if they do not say
    more."""
    if _JAVA_NOT_STARTED in cause or _hint_in("\n".join(lines)) is not None:
        return end_of_runner(lines)
    return cause


def end_of_runner(lines: Sequence[str], exit_code: int | None = None) -> str:
    """Return why a runner ended without a message of its own, by the last lines that it printed, or
    by the signal that killed it."""
    if exit_code is not None and (number := _signal_of(exit_code)) is not None:
        return f"the Spark runner was killed by {number} -> {_KILLED_HINT}"
    causes = [line for line in lines if not _NO_CAUSE.match(line)]
    known = [line for line in lines if _hint_in(line) is not None]
    found = known or [line for line in causes if _NAMES_ERROR.search(line)] or causes
    if not found:
        return "the Spark runner ended and said nothing -> look at the worker's log"
    hint = _hint_in(found[-1]) or "the worker's log has the lines before it"
    cause = _shorten(_JAVA_FRONT.sub(r"\1: ", _LOG_FRONT.sub("", found[-1])))
    return f"the Spark runner ended: {cause} -> {hint}"


def _signal_of(exit_code: int) -> str | None:
    """Return the signal that has killed a process, or a child of a shell; None for another end."""
    number = -exit_code if exit_code < 0 else exit_code - 128
    return f"signal {number} ({_SIGNALS[number]})" if number in _SIGNALS else None


def _hint_in(text: str) -> str | None:
    return next((hint for pattern, hint in _HINTS_BY_TEXT if pattern.search(text)), None)


def _shorten(line: str) -> str:
    return line.strip()[:500]


def raise_readable(error: Exception) -> NoReturn:
    """Raise the error that ended a query or a read; ConfigError if it is a file's."""
    text = "\n".join(_messages(error))
    file, is_malformed = _FILE.search(text), _MALFORMED.search(text) is not None
    if file is None and not is_malformed:
        raise error
    where = {} if file is None else {"file": file[1]}
    if is_malformed:
        raise Unavailable(
            "a row of the source cannot be parsed, or does not fit source.schema: correct it, or "
            "leave such rows out with errors.tolerance=all",
            **where,
        ) from error
    raise Unavailable(
        "Spark cannot read a file of the source: correct it, or remove it", **where
    ) from error


def _messages(error: BaseException) -> list[str]:
    """Return the messages of an error and of its causes."""
    found: list[str] = []
    each: BaseException | None = error
    while each is not None:
        found.append(str(each))
        each = each.__cause__ or getattr(each, "_cause", None)
    return found
