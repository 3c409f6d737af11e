"""Masks: parts of keys, values and headers that are hidden before a message leaves. Pure.

A path names a field of JSON: `card.number`, `items.*.price`, `items[0].price`; `**.email` is one at
any depth, and `$` the whole. Keys and values are masked as text, after they were decoded by a
schema.

Invariants: a text that has no fields although a rule names one is hidden whole, so a record that
cannot be decoded shows nothing; a key that stands twice in an object is masked twice; what is not
masked keeps every digit.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from moldau.console.exact_json import Object, parsed, rendered
from moldau.deferred import dataclass, deferred_pattern

Path: TypeAlias = tuple[str, ...]

STARS: Final = "***"
ANY: Final = "*"
DEEP: Final = "**"
WHOLE: Final[Path] = ()
_INDEX: Final = deferred_pattern(r"\[(\*|\d+)\]")
_LAST: Final = 4
_SHORT: Final = 8
"""Of a text with fewer characters, the last ones would tell too much."""
_HASH_DIGITS: Final = 16


class BadPath(ValueError):
    """A text is no path."""


def path_of(text: str) -> Path:
    """Return a path. Raise BadPath."""
    plain = _INDEX.sub(r".\1", text.strip()).removeprefix("$").removeprefix(".")
    parts = tuple(plain.split(".")) if plain else WHOLE
    if (not text.strip()) or "" in parts or any(sign in plain for sign in "[]\"'"):
        raise BadPath(f"{text!r} is no path: write one such as card.number, items.*.price or $")
    if parts and parts[-1] == DEEP:
        raise BadPath(f"{text!r} names no field after {DEEP}")
    return parts


def _hashed(text: str, key: bytes) -> str:
    digest = hmac.new(key, text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()
    return f"#{digest[:_HASH_DIGITS]}"


def _last_four(text: str, key: bytes) -> str:
    return f"{STARS}{text[-_LAST:]}" if len(text) >= _SHORT else STARS


WAYS: Final[Mapping[str, Callable[[str, bytes], str] | None]] = {
    "remove": None,
    "stars": lambda text, key: STARS,
    "hash": _hashed,
    "last4": _last_four,
}
"""How a text is masked; None takes it away."""


@dataclass(frozen=True, slots=True)
class MaskRule:
    """What is hidden in topics by these patterns."""

    topics: tuple[str, ...]
    how: str = "stars"
    key: tuple[Path, ...] = ()
    value: tuple[Path, ...] = ()
    headers: tuple[str, ...] = ()
    """Patterns of names, in any case."""


_GONE: Final = object()


class Mask:
    """What is hidden of the messages of one topic."""

    def __init__(self, rules: Sequence[MaskRule], hash_key: bytes) -> None:
        self._rules = tuple(rules)
        self._hash_key = hash_key

    def __eq__(self, other: object) -> bool:
        """Whether the other hides the same in the same way."""
        if not isinstance(other, Mask):
            return NotImplemented
        return (self._rules, self._hash_key) == (other._rules, other._hash_key)

    def __hash__(self) -> int:
        return hash((self._rules, self._hash_key))

    @property
    def hides_keys(self) -> bool:
        """Whether a part of the keys is hidden."""
        return any(each.key for each in self._rules)

    def covers(self, other: Mask | None) -> bool:
        """Whether all that another mask hides is hidden by this one as well."""
        return other is None or set(other._rules) <= set(self._rules)

    def key(self, text: str) -> str:
        """Return the text of a key with its masks."""
        return self._masked(text, ((each.how, each.key) for each in self._rules))

    def value(self, text: str) -> str:
        """Return the text of a value with its masks."""
        return self._masked(text, ((each.how, each.value) for each in self._rules))

    def headers(self, headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Return the headers with their masks. Upper and lower case count the same in their names,
        as in those of HTTP, which many of them come from."""
        found = []
        for name, text in headers:
            shown: Any = text
            for each in self._rules:
                if any(_names(pattern, name) for pattern in each.headers):
                    shown = self._replaced(shown, each.how)
                    if shown is _GONE:
                        break
            if shown is not _GONE:
                found.append((name, shown))
        return tuple(found)

    def _masked(self, text: str, rules: Iterable[tuple[str, tuple[Path, ...]]]) -> str:
        for how, paths in rules:
            if not paths or not text:
                continue
            if WHOLE in paths:
                shown = self._replaced(text, how)
                text = "" if shown is _GONE else shown
                continue
            text = self._fields_masked(text, how, paths)
        return text

    def _fields_masked(self, text: str, how: str, paths: tuple[Path, ...]) -> str:
        try:
            tree = parsed(text)
            if not isinstance(tree, list):
                return STARS
            return rendered(self._changed(tree, how, paths))
        except (ValueError, RecursionError):
            return STARS

    def _changed(self, node: Any, how: str, paths: tuple[Path, ...]) -> Any:
        """Return a part of the tree in which the fields at these paths are masked."""
        if not paths:
            return node
        if WHOLE in paths:
            return self._replaced(node, how)
        if isinstance(node, Object):
            made = ((name, self._changed(child, how, _below(paths, name))) for name, child in node)
            return Object((name, child) for name, child in made if child is not _GONE)
        if isinstance(node, list):
            children = (
                self._changed(child, how, _below(paths, str(index)))
                for index, child in enumerate(node)
            )
            return [child for child in children if child is not _GONE]
        return node

    def _replaced(self, node: Any, how: str) -> Any:
        way = WAYS[how]
        if way is None:
            return _GONE
        if isinstance(node, list) and how == "last4":
            return STARS
        text = str(node) if isinstance(node, str) else rendered(node)
        return way(text, self._hash_key)


def _names(pattern: str, header: str) -> bool:
    return fnmatchcase(header.casefold(), pattern.casefold())


def _below(paths: tuple[Path, ...], name: str) -> tuple[Path, ...]:
    """Return what is left of the paths in the field of this name."""
    found: list[Path] = []
    for path in paths:
        if path[0] == DEEP:
            found += (path, *_below((path[1:],), name))
        elif path[0] in (ANY, name):
            found.append(path[1:])
    return tuple(found)
