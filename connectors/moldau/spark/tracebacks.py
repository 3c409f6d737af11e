"""Show a mistake in one line: raise its error again without the frames inside this package.

Spark prints the traceback of what it calls, and a user's mistake has its cause in the last line of
it. So the methods that Spark calls raise a MoldauError with their own frame only. Any other error
keeps its frames, because it may be a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, TypeVar, cast

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_MISSING_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_CREATE: Final = "Create the topic, or correct its name"


def hides_frames(*names: str) -> Callable[[C], C]:
    """Return a class decorator: these methods, also inherited ones, raise errors of one line."""

    def decorate(kind: C) -> C:
        for name in names:
            setattr(kind, name, hide_frames(getattr(kind, name)))
        return kind

    return decorate


def hide_frames(method: F) -> F:
    """Return the function with errors of one line. What it yields is passed on unchanged."""

    @wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        try:
            found = method(*given, **named)
        except (MoldauError, TimeoutError) as error:
            raise _with_advice(error).with_traceback(None) from None
        return _hide_frames_of(found) if isinstance(found, Iterator) else found

    return cast(F, call)


def _hide_frames_of(items: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from items
    except (MoldauError, TimeoutError) as error:
        raise _with_advice(error).with_traceback(None) from None


def _with_advice(error: Exception) -> Exception:
    """Add what to do to an error that only says that the topic is missing."""
    if isinstance(error, KafkaError) and error.code in _MISSING_TOPIC:
        reason = error.reason.rstrip(".")
        return KafkaError(error.code, f"{reason}. {_CREATE}.", **error.context)
    return error
