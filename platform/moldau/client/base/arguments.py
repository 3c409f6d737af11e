"""What callers give, looked at where it comes in. No IO.

Invariant: what is of the wrong kind is refused before anything is sent or changed, by a TypeError
or ValueError that names the argument, what it has to be and what came instead. Each function gives
back what it was given, in the form that the rest of the client works with.

Type checkers find most of this; a notebook has none, and a `str` passes wherever many `str` are
wanted.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Mapping
from enum import Enum
from operator import index
from typing import Final, NamedTuple, Protocol, SupportsIndex, TypeVar, cast

from moldau.ids import ZERO_UUID, Uuid
from moldau.link.arguments import TEXT, fits, text_of, told
from moldau.link.metadata import TopicPartition

E = TypeVar("E", bound=Enum)
T = TypeVar("T")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

PartitionGiven = TopicPartition | tuple[str, int]
"""A partition as callers may write it: a pair of topic and number does as well."""


class ByPartition(Protocol[V_co]):
    """A Mapping of something for each of many partitions, with keys written in either way."""

    def items(self) -> ItemsView[PartitionGiven, V_co]:
        """As a Mapping's."""


class OffsetAndMetadata(NamedTuple):
    """Where a group goes on, the user's note, and the last record's epoch (-1: unknown)."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


_PAIR: Final = 2
_TIMESTAMP_MS_MAX: Final = 2**63 - 1
_INT64: Final = range(-(2**63), 2**63)
_OFFSETS: Final = range(2**63)
_OFFSETS_AND_THE_END: Final = range(-1, 2**63)
_PARTITIONS: Final = range(2**31)
_BROKERS: Final = range(2**31)
_EPOCHS: Final = range(-1, 2**31)
_NO_FACTS: Final[Mapping[str, object]] = {}


def name_of(given: object, what: str) -> str:
    """A name; never None, which a broker takes for all there are."""
    return text_of(given, f"a {what}'s name")


def several(given: Iterable[T], what: str, *, one: str = "") -> list[T]:
    """A list of items. A str is refused, though Python iterates over its letters; `one` names the
    method for a single item."""
    instead = f"; for one alone there is {one}" if one else ""
    if isinstance(given, str | bytes):
        raise TypeError(f"{what}s are given as a list, [{given!r}], not as {told(given)}{instead}")
    try:
        return list(given)
    except TypeError:
        if isinstance(given, Iterable):
            raise  # by what makes them
    raise TypeError(f"{what}s are given as a list, not as {told(given)}{instead}")


def names_of(given: Iterable[str], what: str, *, one: str = "") -> list[str]:
    return [name_of(each, what) for each in several(given, what, one=one)]


def known_names(
    given: Iterable[str], what: str, known: Iterable[str], of: str = "a group"
) -> list[str]:
    """States or types `of` something, in any case; ValueError for an unknown one."""
    by_lower = {name.lower(): name for name in known}
    found = []
    for each in names_of(given, what):
        name = by_lower.get(each.strip().lower())
        if name is None:
            raise ValueError(f"{each!r} is no {what} of {of}: {', '.join(by_lower.values())}")
        found.append(name)
    return found


def partition_of(given: PartitionGiven) -> TopicPartition:
    """A partition, also from a plain pair."""
    pair: object = given
    if not isinstance(pair, tuple) or len(pair) != _PAIR:
        raise TypeError(f"a partition is a TopicPartition, or (topic, number), not {told(given)}")
    topic, partition = name_of(pair[0], "topic"), whole(pair[1], "a partition's number")
    _check_fits(partition, _PARTITIONS, "a partition's number", {"topic": topic})
    return TopicPartition(topic, partition)


def partitions_in(given: Iterable[PartitionGiven]) -> list[TopicPartition]:
    """Many partitions, and not a single one, which is a tuple too."""
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        raise TypeError(f"partitions are given as a list, [{given!r}], not as {told(given)}")
    return [partition_of(each) for each in several(given, "partition")]


def check_number(partition: object, what: str = "partition") -> None:
    """TypeError unless it is the number of a partition, or None. A bool is refused."""
    if partition is None or type(partition) is int:
        return
    if isinstance(partition, SupportsIndex) and not isinstance(partition, bool | type):
        return
    raise TypeError(f"{what} must be an int or None, not {told(partition)}")


def check_timestamp(given: object, what: str = "timestamp_ms") -> None:
    """TypeError or ValueError unless it is a record's timestamp, or None. Kafka's producers refuse
    times before 1970 too; a bool is refused."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{what} must be an int, milliseconds since 1970, not {told(given)}")
    if not 0 <= given <= _TIMESTAMP_MS_MAX:
        raise ValueError(
            f"{what} must be milliseconds since 1970, from 0 to 2**63 - 1, or None for now, not "
            f"{told(given)}"
        )


def check_column(
    name: str, column: Iterable[object], check: Callable[[object, str], None], most: int
) -> None:
    """`check` each item of a column. A column of ints from 0 to `most`, and None, passes at a
    look."""
    kinds = set(map(type, column))
    if all(each is not bool and issubclass(each, int | type(None)) for each in kinds):
        numbers = cast("Iterable[int]", column)
        if type(None) in kinds:
            numbers = cast("list[int]", [each for each in column if each is not None])
        if min(numbers, default=0) >= 0 and max(numbers, default=0) <= most:
            return
    for place, each in enumerate(column):
        check(each, f"{name}[{place}]")


def check_timestamps(column: Iterable[object]) -> None:
    check_column("timestamps_ms", column, check_timestamp, _TIMESTAMP_MS_MAX)


def check_numbers(column: Iterable[object]) -> None:
    check_column("partition", column, check_number, _TIMESTAMP_MS_MAX)


def by_partition(given: ByPartition[V]) -> dict[TopicPartition, V]:
    if not isinstance(given, Mapping):
        raise TypeError(f"partitions with their values are given as a dict, not as {told(given)}")
    return {partition_of(each): value for each, value in given.items()}


def by_name(given: Mapping[str, V], what: str) -> dict[str, V]:
    """A value for each of many names of `what`."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what}s with their values are given as a dict, not as {told(given)}")
    return {name_of(each, what): value for each, value in given.items()}


def config_values(given: Mapping[str, str]) -> dict[str, str]:
    """Values of a cluster's settings: text, as Kafka's words are not always Python's."""
    values = by_name(given, "setting")
    for name, value in values.items():
        text_of(value, f"the value of {name}")
    return values


def offsets_to_store(
    given: ByPartition[int | OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit. Those below 0 are refused here, because brokers store them."""
    return {where: _offset_to_store(where, each) for where, each in by_partition(given).items()}


def _offset_to_store(where: TopicPartition, given: int | OffsetAndMetadata) -> OffsetAndMetadata:
    stored = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    facts: dict[str, object] = {"topic": where.topic, "partition": where.partition}
    offset = whole(stored.offset, "an offset to commit", facts)
    if offset < 0:
        raise ValueError(f"an offset to commit is not negative ({_written(facts)}, {offset=})")
    _check_fits(offset, _OFFSETS, "an offset to commit", facts)
    facts["offset"] = offset
    metadata: object = stored.metadata
    if not isinstance(metadata, str):
        raise TypeError(
            f"the metadata of an offset to commit are a str, not {told(metadata)} "
            f"({_written(facts)})"
        )
    if not fits(metadata):
        raise ValueError(
            f"the metadata of an offset to commit are {TEXT.allowed}, not {told(metadata)} "
            f"({_written(facts)})"
        )
    epoch = leader_epoch_of(stored.leader_epoch, facts)
    return OffsetAndMetadata(offset, metadata, epoch)


def offsets_to_keep_from(given: ByPartition[int]) -> dict[TopicPartition, int]:
    """The first offset of each partition to keep; -1 for the end of its log."""
    found = {}
    for where, each in by_partition(given).items():
        facts = {"topic": where.topic, "partition": where.partition}
        offset = whole(each, "an offset to delete up to", facts)
        _check_fits(offset, _OFFSETS_AND_THE_END, "an offset to delete up to", facts)
        found[where] = offset
    return found


def offset_of(given: object, facts: Mapping[str, object]) -> int:
    offset = whole(given, "an offset", facts)
    if offset < 0:
        raise ValueError("an offset is not negative; seek_to_end and others seek by name")
    _check_fits(offset, _OFFSETS, "an offset", facts)
    return offset


def leader_epoch_of(given: object, facts: Mapping[str, object]) -> int:
    """A record's epoch; -1 if it is unknown."""
    epoch = whole(given, "leader_epoch")
    _check_fits(epoch, _EPOCHS, "leader_epoch", facts)
    return epoch


def timestamp_of(given: object, where: TopicPartition) -> int:
    """A time in ms, or a number below 0 that stands for an end of the log."""
    number = whole(given, f"the timestamp for {where}")
    _check_fits(number, _INT64, f"the timestamp for {where}")
    return number


def _check_fits(
    number: int, numbers: range, what: str, facts: Mapping[str, object] = _NO_FACTS
) -> None:
    """ValueError for a number that a request has no room for, or no meaning."""
    if number in numbers:
        return
    least = numbers.start if numbers.start >= -1 else "-(2**63)"
    most = f"2**{numbers[-1].bit_length()} - 1"
    where = f" ({_written(facts)})" if facts else ""
    raise ValueError(f"{what} is from {least} to {most}, not {told(number)}{where}")


def broker_of(given: object, what: str = "a broker's id") -> int:
    """The number of a broker. Inside the client, those below 0 mean something else."""
    return within(given, what, _BROKERS)


def brokers_of(given: Iterable[int], what: str = "a broker's id") -> list[int]:
    return [broker_of(each, what) for each in several(given, "broker")]


def uuid_of(given: object, what: str, source: str) -> Uuid:
    """An id of 16 bytes, as that source has it."""
    if not isinstance(given, bytes):
        raise TypeError(f"{what} is 16 bytes, as {source}, not {told(given)}")
    if len(given) != len(ZERO_UUID):
        raise ValueError(f"{what} is 16 bytes, not {len(given)}: {told(given)}")
    return given


def flag(given: object, what: str) -> bool:
    """True or False; a text such as "no" would count as true."""
    if not isinstance(given, bool):
        raise TypeError(f"{what} is True or False, not {told(given)}")
    return given


def flag_or_none(given: object, what: str) -> bool | None:
    return None if given is None else flag(given, what)


def member_of(kind: type[E], given: object, what: str) -> E:
    """One of an enumeration, and not only its number or its name."""
    if not isinstance(given, kind):
        names = ", ".join(each.name for each in kind)
        raise TypeError(f"{what} is a {kind.__name__}, not {told(given)}: one of {names}")
    return given


def within(given: object, what: str, numbers: range) -> int:
    number = whole(given, what)
    _check_fits(number, numbers, what)
    return number


def whole(given: object, what: str, facts: Mapping[str, object] = _NO_FACTS) -> int:
    """An int, of any type that Python takes for one but bool; `facts` say where it was given."""
    if type(given) is int:  # to look for a protocol takes a hundred times as long
        return given
    if isinstance(given, SupportsIndex) and not isinstance(given, bool | type):
        return index(given)
    where = f" ({_written({**facts, 'offset': given})})" if facts else ""
    raise TypeError(f"{what} is an int, not {told(given)}{where}")


def positive(given: object, what: str) -> int:
    number = whole(given, what)
    if number < 1:
        raise ValueError(f"{what} is at least 1, not {told(given)}")
    return number


def since_1970(given: object, what: str) -> int:
    """A time in ms. Brokers take one below 0 for something else, such as the end of a log."""
    number = whole(given, what)
    if number < 0:
        raise ValueError(f"{what} is milliseconds since 1970, not {told(given)}")
    _check_fits(number, _OFFSETS, what)
    return number


def _written(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in facts.items())
