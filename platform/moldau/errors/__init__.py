"""The three families of errors, and nothing else.

`KafkaError`      the protocol has a number for it; expected, sent to a client or raised in one.
`BadData`         bytes from outside are wrong (`MalformedMessage`, `CorruptRecord`, `CorruptLog`):
                  always raised, never asserted, because it is not our fault.
`AssertionError`  our own bug.

Facts are key=value context, so that a log line can be searched and a message can be shown:
`MalformedMessage("count exceeds what is left", message="FetchRequest", at=17, count=9, left=3)`.
"""

from __future__ import annotations

from typing import Any, TypeVar

Kept = TypeVar("Kept")


class MoldauError(Exception):
    """An error with its facts: `reason` for people, `context` for people and programs."""

    def __init__(self, reason: str, /, **context: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.context: dict[str, Any] = context

    def __str__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.context.items())
        return f"{self.reason} ({facts})" if facts else self.reason

    def __repr__(self) -> str:
        """Return all that `str` has: containers of errors, such as a result with many topics, are
        printed with the `repr` of each error."""
        return f"{type(self).__name__}({str(self)!r})"


class BadData(MoldauError):
    """Bytes from outside that are not what they claim to be."""


class MalformedMessage(BadData):
    """A protocol message that does not follow its schema."""


class CorruptRecord(BadData):
    """A record batch whose checksum, lengths, counts or compressed bytes are wrong."""


class CorruptLog(BadData):
    """A file of a log without the content that its name and position promise."""


class BadGiven(MoldauError):
    """A value that a user gave and that cannot be used; the text says what to give instead."""


class ConfigError(MoldauError):
    """A setting that cannot be used: names the setting, the value and the allowed values."""


def without_frames(error: Kept) -> Kept:
    """Return the error itself without the frames of the calls that raised it and its causes.
    A value that is no error is returned as it is.

    An error that is kept goes through here. Its traceback holds the local variables of all these
    calls, such as the bytes of a request. A local variable with an error that the same call has
    caught makes a cycle with the call's frame, which only the collector frees.
    """
    if not isinstance(error, BaseException):
        return error
    pending: list[BaseException] = [error]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        cause = each.__cause__
        if cause is not None:
            pending.append(cause)
        if each.__context__ is not cause:
            each.__context__ = None
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
    return error
