"""The reason of a failure, for people: one line `cause -> hint`, then the traceback. No IO.

Invariant: neither contains the value of a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from traceback import format_exception
from typing import Final

from moldau.connect.errors import ConnectError, DataError, RetriableError
from moldau.connect.task.tolerance import told
from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode, KafkaError

HIDDEN: Final = "[hidden]"
_SHORTEST_SECRET: Final = 3

_HINTS_BY_CODE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or correct its name in the config",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a topic's name has letters, digits, . _ and -: correct it "
    "in the config, or change it by a RegexRouter transform",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow the worker's user to use the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "allow the worker's user to use the consumer group",
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.request.size of the producer and max.message.bytes of "
    "the topic, or make records smaller",
    ErrorCode.NOT_ENOUGH_REPLICAS: "too few brokers are in sync: look at the cluster",
}

_HINTS_BY_TYPE: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (ConfigError, "correct the config and post it again"),
    (DataError, "correct the data or its converter; a sink passes over such records with "
     "errors.tolerance=all and a dead letter queue"),
    (RetriableError, "it is tried again; if it lasts, look at the system it names"),
    (KafkaError, "look at the cluster; the task tries again"),
    (MemoryError, "give the worker more memory, or the task smaller batches"),
    (ImportError, "install what is missing where the worker runs"),
    (PermissionError, "allow the worker's user to do that"),
    (FileNotFoundError, "create the file or directory, or correct its name in the config"),
    (ConnectionError, "check that the system is up and reachable from the worker"),
    (TimeoutError, "check that the system is up and reachable from the worker"),
)  # fmt: skip


def hint_of(error: BaseException) -> str:
    """Return what a person can do about the error."""
    for each in chain(error):
        own = each.context.get("hint") if isinstance(each, ConnectError) else None
        if own:
            return str(own)
        if isinstance(each, KafkaError) and each.code in _HINTS_BY_CODE:
            return _HINTS_BY_CODE[ErrorCode(each.code)]
    for each in chain(error):
        for kind, hint in _HINTS_BY_TYPE:
            if isinstance(each, kind):
                return hint
    *_, last = chain(error)
    if isinstance(last, ConnectError):
        return "correct what it names, in the config or outside; the task tries again"
    return "the traceback below says where; if it names moldau, please report it"


def chain(error: BaseException) -> Iterable[BaseException]:
    """Yield the error, then its causes."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


def trace_of(error: BaseException, secrets: Collection[str] = ()) -> str:
    """Return the trace of a FAILED status: a line `cause -> hint`, then the traceback."""
    cause = " ".join(told(error).split())
    if " -> " not in cause:  # else it says itself what to do
        cause = f"{cause} -> {hint_of(error)}"
    return without(f"{cause}\n{''.join(format_exception(error))}", secrets)


def without(text: str, secrets: Collection[str]) -> str:
    """Return the text with each secret hidden, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, HIDDEN)
    return text
