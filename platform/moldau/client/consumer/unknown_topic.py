"""What is asked for by its name and is not there: told at once, not waited for.

Most requests try an unknown topic again, as it may have been made a moment ago. A request
that describes, changes or deletes a topic most likely has a wrong name.
"""

from __future__ import annotations

from typing import Final

from moldau.errors.codes import ErrorCode, KafkaError

_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class UnknownTopic(KafkaError):
    """There is no such topic. Not to be tried again, though its code would allow it."""

    @property
    def retriable(self) -> bool:
        return False


def final(error: KafkaError) -> KafkaError:
    """The same, and final if it says that something is not there."""
    if error.code not in _NOT_THERE:
        return error
    return UnknownTopic(error.code, error.reason, **error.context)


def maybe_final(error: KafkaError | None) -> KafkaError | None:
    """As `final`, where there may be none."""
    return None if error is None else final(error)
