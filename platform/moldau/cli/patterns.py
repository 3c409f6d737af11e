"""Patterns of names, as a shell has them: `orders-*`, `orders-?`, `orders-[0-9]`.

A word without one of the characters `*?[` is a name and not a pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from moldau.deferred import deferred_pattern
from moldau.errors import MoldauError
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.client import Admin, Consumer, Topic

NAME_OR_PATTERN: Final = "a name, or a pattern such as 'orders-*'"
_SHOWN: Final = 10
_RESERVED: Final = "__"

_CHARACTERS: Final = frozenset("*?[")
_CHARACTER: Final = deferred_pattern(r"[*?[]")


def is_pattern(word: str) -> bool:
    """Whether the word has a character that makes it a pattern."""
    return not _CHARACTERS.isdisjoint(word)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name matches one of the patterns, or there are none."""
    from fnmatch import fnmatchcase

    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def is_internal(topic: Topic) -> bool:
    """Whether the topic is one of the brokers' own."""
    return topic.is_internal


def is_reserved(topic: Topic) -> bool:
    """Whether the topic is internal, or begins with `__`, as the names of internal topics do."""
    return topic.is_internal or topic.name.startswith(_RESERVED)


async def named_topics(
    client: Admin | Consumer,
    words: Sequence[str],
    *,
    is_left_out: Callable[[Topic], bool] = is_internal,
) -> list[str]:
    """Return the names, with those of the cluster in place of each pattern. Names are not checked.
    Raise MoldauError for a pattern without a topic. Patterns do not select what `is_left_out`."""
    if not any(map(is_pattern, words)):
        return list(words)
    known = await client.list_topics(internal=True)
    found: list[str] = []
    for word in words:
        if not is_pattern(word):
            found.append(word)
            continue
        matching = [each for each in known if matches(each.name, [word])]
        chosen = [each.name for each in matching if not is_left_out(each)]
        if not chosen:
            rest = ", except internal ones: name those in full" if matching else ""
            raise MoldauError(f"no topic matches{rest}", pattern=word)
        found += chosen
    return list(dict.fromkeys(found))


async def check_matching_visible(admin: Admin, words: Sequence[str]) -> None:
    """Raise HiddenNames if topics that a pattern matches are hidden, or may be. A name is no
    pattern: an error tells of its right."""
    from moldau.operations.hidden import Names, check_chosen_visible

    patterns = [each for each in words if is_pattern(each)]
    if patterns:
        starts = [Names(_CHARACTER.split(each, maxsplit=1)[0]) for each in patterns]
        await check_chosen_visible(admin, lambda name: matches(name, patterns), starts)


def note_of(words: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Return a note about the topics that are read, if a word is a pattern; else nothing."""
    if not any(map(is_pattern, words)):
        return []
    names = ", ".join(topics[:_SHOWN])
    more = f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else ""
    count = counted(len(topics), "topic")
    return [f"reads {count}: {names}{more}; topics that are created later are not read"]
