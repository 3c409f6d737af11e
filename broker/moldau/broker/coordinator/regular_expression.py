"""Regular expressions that clients choose and the broker runs, so their cost must be bounded.

RE2 matches in time linear in the length of the text, and rejects expressions that it cannot match
so. Kafka uses RE2/J, which has the same syntax: both reject look-around and back-references. (The
wheel `google-re2` is RE2 itself with its own Python module.)
"""

from __future__ import annotations

from typing import Any, Final

from moldau.errors.codes import ErrorCode, KafkaError

REGEX_LENGTH_MAX: Final = 8_192
"""Longer expressions are rejected; topic names have at most 249 characters."""

_MEMORY_MAX: Final = 1 << 20
"""The maximum memory of one compiled expression, in bytes."""


def compiled(regex: str) -> Any:
    """Return the expression in RE2. Raise INVALID_REGULAR_EXPRESSION if RE2 rejects it."""
    # Imported only when one is needed: most brokers never see an expression.
    import re2  # type: ignore[import-untyped]

    if len(regex) > REGEX_LENGTH_MAX:
        raise _invalid(regex[:100], f"it is longer than {REGEX_LENGTH_MAX}")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_MAX
    try:
        return re2.compile(regex, options)
    except re2.error as refused:
        why = refused.args[0] if refused.args else ""
        text = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise _invalid(regex, text) from None


def _invalid(regex: str, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"not a regular expression that RE2 knows: {why}",
        regex=regex,
    )
