"""The error for a named topic that does not exist: raised at once, without retries.

Most requests retry an unknown topic, as it may have been created a moment ago. A request that
describes, changes or deletes a topic most likely has a wrong name.
"""

from __future__ import annotations

from typing import Final

from moldau.errors.codes import ErrorCode, KafkaError

_NOT_THERE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class UnknownTopic(KafkaError):
    """The topic does not exist. Not retriable, although its error code is."""

    @property
    def retriable(self) -> bool:
        return False


def final(error: KafkaError) -> KafkaError:
    """Return the error, made non-retriable if it says that a topic does not exist."""
    if error.code not in _NOT_THERE:
        return error
    return UnknownTopic(error.code, error.reason, **error.context)


def maybe_final(error: KafkaError | None) -> KafkaError | None:
    """Return `final(error)`, or None if there is no error."""
    return None if error is None else final(error)
