"""The three families of errors, and nothing else.

`KafkaError`      the protocol has a number for it; expected, sent to a client or raised in one.
`BadData`         bytes from outside are wrong (`MalformedMessage`, `CorruptRecord`, `CorruptLog`):
                  always raised, never asserted, because it is not our fault.
`AssertionError`  our own bug.

Facts are key=value context, so that a log line can be searched and a message can be shown:
`MalformedMessage("count exceeds what is left", message="FetchRequest", at=17, count=9, left=3)`.
"""

from __future__ import annotations

from typing import Any


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


class ConfigError(MoldauError):
    """A setting that cannot be used: names the setting, the value and the allowed values."""
