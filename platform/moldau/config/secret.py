"""A value that must not be shown: a password, a key, a token.

Invariant: no conversion of a `Secret` to text shows its value; only `reveal()` returns it, so a
search for `reveal` finds every place where a secret is used (CVE-2026-33558 was caused by SASL
bytes in debug logs). It is a type and not a rule about names, because names are forgotten. It is
pickled with its value, since an executor process needs the password to connect: keep a pickle as
private as the settings file itself.
"""

from __future__ import annotations

from typing import final

HIDDEN = "***"


@final
class Secret:
    """Text that is never printed; only `reveal()` returns it."""

    __slots__ = ("_value",)

    _value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", value)

    def reveal(self) -> str:
        """Return the secret itself. Never pass the result to a log, an error or a response."""
        return self._value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Secret does not change")

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        """Compare in a time that does not depend on where two values differ (CVE-2021-38153)."""
        if not isinstance(other, Secret):
            return NotImplemented
        from hmac import compare_digest

        mine, theirs = (each._value.encode("utf-8", "surrogatepass") for each in (self, other))
        return compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._value,)
