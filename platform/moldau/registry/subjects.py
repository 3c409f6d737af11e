"""The names of subjects, and the contexts that they are in. No IO.

A context is a registry within the registry: it has its own ids. `:.dev:orders-value` is the subject
`orders-value` of the context `.dev`; a subject without such a beginning is in the default context,
which is called `.`.
"""

from __future__ import annotations

from typing import Final

from moldau.registry.refusals import invalid_subject

DEFAULT: Final = "."
ALL: Final = ":*:"
_RESERVED: Final = frozenset(("__GLOBAL", "__EMPTY"))


def context_of(subject: str) -> str:
    """Return the context of a subject."""
    if not subject.startswith(":."):
        return DEFAULT
    return subject[1:].partition(":")[0]


def local_name(subject: str) -> str:
    """Return the name of a subject within its context."""
    return subject[1:].partition(":")[2] if subject.startswith(":.") else subject


def qualified(context: str, subject: str) -> str:
    """Return the full name of a subject that is named within a context."""
    if subject.startswith(":.") or context == DEFAULT:
        return normal(subject)
    return f":{context}:{subject}"


def normal(subject: str) -> str:
    """Return the one name of a subject: without a context if that is the default one."""
    return subject[3:] if subject.startswith(":.:") else subject


def checked(subject: str) -> str:
    """Return the subject's one name. Raise Refusal if it cannot be registered."""
    name = local_name(subject)
    is_bad = not name or name in _RESERVED or any(ord(each) < 0x20 for each in subject)
    if is_bad or subject.startswith(":*"):
        raise invalid_subject(subject)
    return normal(subject)
