"""Rules for topic names.

Names become directories and parts of metrics, so few characters are allowed. In metrics `.` becomes
`_`, so two names that differ only there cannot both exist.
"""

from __future__ import annotations

from typing import Final

from moldau.deferred import deferred_pattern
from moldau.errors.codes import ErrorCode, KafkaError

LENGTH_MAX: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
_LEGAL: Final = deferred_pattern(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION if a topic cannot have this name."""
    if name == "":
        raise _refusal("it is empty")
    if name in (".", ".."):
        raise _refusal(f"it cannot be {name!r}")
    if len(name) > LENGTH_MAX:
        raise _refusal(f"{name!r} is longer than {LENGTH_MAX} characters")
    if _LEGAL.fullmatch(name) is None:
        raise _refusal(f"{name!r} has other characters than ASCII letters, digits, . _ and -")


def _refusal(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
