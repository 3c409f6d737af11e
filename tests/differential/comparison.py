"""What differs between two transcripts of one scenario, and which of it is on purpose.

Lists of structs are matched by what names their items (topic, partition, ...), so that one missing
row is one difference; a different order of the same rows is a difference of its own, at `[order]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from tests.differential.plain import WORDS, key_words
from tests.differential.talk import Entry

ABSENT: Final = "absent"
ORDER: Final = "[order]"
WAITED: Final = "[waited]"
OUTCOME: Final = "[outcome]"
ANY: Final = object()
UNSAID: Final = object()
_NAMING: Final = (
    *("name", "topic", "topic_name", "topic_id", "resource_type", "resource_name", "user"),
    *("partition_index", "partition", "index", "node_id", "broker_id", "api_key", "feature"),
    *("log_dir", "producer_id", "batch_index", "replica_id", "source", "offsets"),
    *("group_id", "member_id"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not the same. `path` is of field names: `topics.partitions.offset`."""

    scenario: str
    label: str
    api: str
    version: int
    path: str
    where: str
    kafka: Any
    ours: Any

    def __str__(self) -> str:
        return (
            f"{self.scenario} / {self.label} / {self.api} {self.version} {self.where}: "
            f"kafka {_short(self.kafka)}, ours {_short(self.ours)}"
        )


@dataclass(frozen=True, slots=True)
class OnPurpose:
    """A difference that shall be, and why; it covers nothing but what it describes.

    `cases` are `scenario/label`, `paths` those of fields (or where exactly a value stands), all
    with `*`. What is ours has to be said: a value, or a function of the difference, for a row that
    takes any answer hides the next bug. A row without cases tells the reader of
    docs/compatibility.md what no scenario can show.
    """

    what: str
    why: str
    area: str
    cases: Sequence[str] = ()
    paths: Sequence[str] = ()
    kafka: Any = ANY
    ours: Any = UNSAID

    def __post_init__(self) -> None:
        is_said = self.ours is not UNSAID and self.ours is not ANY
        assert is_said == bool(self.cases) == bool(self.paths), f"what is ours? {self.what}"
        assert all(each.strip("*.") for each in self.paths), f"in which field? {self.what}"

    def covers(self, difference: Difference) -> bool:
        case = f"{difference.scenario}/{difference.label}"
        places = (difference.path, difference.where)
        return (
            any(fnmatchcase(case, each) for each in self.cases)
            and any(_matches(place, each) for place in places for each in self.paths)
            and _is(self.kafka, difference.kafka, difference)
            and _is(self.ours, difference.ours, difference)
        )


def _is(said: Any, value: Any, difference: Difference) -> bool:
    if said is ANY:
        return True
    if callable(said):
        return bool(said(difference))
    return bool(said == value and isinstance(said, bool) == isinstance(value, bool))


def _matches(path: str, pattern: str) -> bool:
    return path == pattern or fnmatchcase(path, pattern.replace("[", "[[]"))


def differences(
    scenario: str, kafka: Iterable[Entry], ours: Iterable[Entry]
) -> Iterator[Difference]:
    """Every difference; both transcripts must be of the same cases."""
    for theirs, own in zip(kafka, ours, strict=True):
        assert (theirs.label, theirs.version) == (own.label, own.version)
        for path, where, one, other in _entry_differences(theirs, own):
            yield Difference(
                scenario, own.label, own.api, own.version, path, where or path, one, other
            )


def not_the_same_cases(kafka: Sequence[Entry], ours: Sequence[Entry]) -> list[str]:
    """Labels of what only one of them has, or whose requests differ."""
    known = {(each.label, each.version): each.asked for each in kafka}
    wanted = {(each.label, each.version): each.asked for each in ours}
    return sorted(
        {
            label
            for label, version in {**known, **wanted}
            if known.get((label, version)) != wanted.get((label, version))
        }
    )


_Found = Iterator[tuple[str, str, Any, Any]]


def _entry_differences(kafka: Entry, ours: Entry) -> _Found:
    if isinstance(kafka.outcome, dict) and isinstance(ours.outcome, dict):
        yield from _of_structs(kafka.outcome, ours.outcome, "", "")
    elif kafka.outcome != ours.outcome:
        yield OUTCOME, "", kafka.outcome, ours.outcome
    if kafka.waited != ours.waited:
        yield WAITED, "", kafka.waited, ours.waited


def _of_structs(kafka: Mapping[str, Any], ours: Mapping[str, Any], path: str, where: str) -> _Found:
    for name in {**kafka, **ours}:
        one, other = kafka.get(name, ABSENT), ours.get(name, ABSENT)
        yield from _of_values(one, other, _joined(path, name), _joined(where, name))


def _of_values(kafka: Any, ours: Any, path: str, where: str) -> _Found:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        yield from _of_structs(kafka, ours, path, where)
    elif isinstance(kafka, list) and isinstance(ours, list):
        yield from _of_lists(kafka, ours, path, where)
    elif (theirs := key_words(kafka)) is not None and (own := key_words(ours)) is not None:
        if not theirs <= own:
            yield path, where, kafka, ours
    elif kafka != ours or isinstance(kafka, bool) != isinstance(ours, bool):
        yield path, where, _without_key_words(kafka), _without_key_words(ours)


def _without_key_words(value: Any) -> Any:
    """Key words count only where both say something."""
    return value if key_words(value) is None else WORDS


def _of_lists(kafka: list[Any], ours: list[Any], path: str, where: str) -> _Found:
    if not all(isinstance(each, dict) for each in (*kafka, *ours)):
        yield from _of_plain_lists(kafka, ours, path, where)
        return
    theirs, own = _by_name(kafka), _by_name(ours)
    shared = [name for name in theirs if name in own]
    if shared != [name for name in own if name in theirs]:
        yield _joined(path, ORDER), _joined(where, ORDER), shared, [n for n in own if n in theirs]
    for name in {**theirs, **own}:
        one, other = theirs.get(name, ABSENT), own.get(name, ABSENT)
        yield from _of_values(one, other, path, f"{where}[{name}]")


def _of_plain_lists(kafka: list[Any], ours: list[Any], path: str, where: str) -> _Found:
    if kafka == ours:
        return
    if sorted(map(repr, kafka)) == sorted(map(repr, ours)):
        path, where = _joined(path, ORDER), _joined(where, ORDER)
    yield path, where, kafka, ours


def _by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows by what names them; the second of one name is `name#2`."""
    named: dict[str, dict[str, Any]] = {}
    for row in rows:
        naming = ("key",) if "key" in row else _NAMING
        name = ",".join(f"{each}={row[each]}" for each in naming if _is_name(row.get(each)))
        count = 1
        unique = name
        while unique in named:
            count += 1
            unique = f"{name}#{count}"
        named[unique] = row
    return named


def _is_name(value: Any) -> bool:
    return value is not None and not isinstance(value, dict | list)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}..."
