"""Which rows of a stopped app have lost the offsets of the records that they hold. Pure.

Rows and offsets are committed together, so rows without offsets mean that the offsets are gone, and
a start would process the records again, on top of the rows. Two things are kept to tell that from
an input that the app has never read:

- The text of each offset names the inputs of the task that had offsets in the same commit, by
  their topic ids. One of them without an offset now has lost it. A topic that was deleted and
  created anew has another id, and a new partition is in no text: both are read from the beginning.
- For a task without any offset, the app's topic keeps from which inputs the rows of each store
  come, as of the last start at which all partitions with rows had offsets. If they are the same
  now, the offsets are lost. If an input has been created anew since, or the store was fed by other
  ones, rows without offsets may be those of before, so it is not known.

A store without a changelog has its rows on the machines of its workers alone, and each worker looks
for those on its own. A start elsewhere does not see them, so what is kept of their inputs stays as
it was when they first had rows: after an input was created anew it is not known any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from zlib import crc32

from moldau.client import TopicPartition
from moldau.deferred import dataclass
from moldau.ids import Uuid
from moldau.streams.plan.plan import Plan, Program

TopicIds = Mapping[str, Uuid]
OffsetTexts = Mapping[TopicPartition, str]
"""The texts of committed offsets."""
_INPUTS: Final = "inputs"


@dataclass(frozen=True, slots=True)
class LostOffsets:
    """A partition of a store, and its inputs without offsets. If it has rows, these offsets are
    lost, or may be. The rows are those of the changelog, or if it is None, those on a machine."""

    store: str
    changelog: str | None
    program: int
    partition: int
    inputs: tuple[str, ...]
    is_certain: bool
    is_whole: bool
    """Whether the group has no offsets at all."""

    def __str__(self) -> str:
        """Return what is missing, for a sentence about the group."""
        if self.is_whole:
            return "no offsets"
        return f"no offsets of {', '.join(f'{topic}-{self.partition}' for topic in self.inputs)}"

    @property
    def where(self) -> TopicPartition | None:
        """The partition of the changelog, if there is one."""
        return None if self.changelog is None else TopicPartition(self.changelog, self.partition)

    @property
    def rows(self) -> tuple[str, str]:
        """The task and the store that have the rows."""
        return f"{self.program}_{self.partition}", self.store

    @property
    def machines(self) -> str:
        """Where a reset is needed, if not on one machine only."""
        return "" if self.changelog is not None else " on each machine with rows of it"

    @property
    def outcome(self) -> str:
        """What follows for an app that starts all the same."""
        doubt = "" if self.is_certain else ", if they come of records that are there now,"
        return (
            f"records that the rows hold{doubt} are processed twice: moldau streams "
            f"reset{self.machines} lets the app begin again"
        )


def with_inputs(text: str, ids: Iterable[Uuid], limit: int) -> str:
    """Return the text of an offset that also names the inputs with offsets, if there is room."""
    named = f'"{_INPUTS}":"{_digests(ids)}"}}'
    longer = f"{text[:-1]},{named}" if text else f"{{{named}"
    return longer if len(longer) <= limit else text


def sources(plan: Plan, ids: TopicIds) -> dict[str, str]:
    """Return from which inputs the rows of each store that keeps them come."""
    keeping = _keeping(plan)
    return {
        store.name: _digests(ids[topic] for topic in program.inputs)
        for program in plan.programs
        if all(any(ids.get(topic, b"")) for topic in program.inputs)
        for store in program.stores
        if store.name in keeping
    }


def sources_on_machines(
    plan: Plan, now: Mapping[str, str], kept: Mapping[str, str]
) -> dict[str, str]:
    """Return what is kept on for stores whose rows are on machines that a start may not see."""
    return {
        name: kept[name]
        for name, changelog in _keeping(plan).items()
        if changelog is None and name in kept and name in now
    }


def lost_offsets(
    plan: Plan,
    counts: Mapping[str, int],
    offsets: OffsetTexts,
    ids: TopicIds,
    kept: Mapping[str, str] | None,
) -> Iterator[LostOffsets]:
    """Yield the partitions of stores that lack offsets of their inputs; most of them have no rows.
    `counts` has the topics that exist, `kept` the sources of each store as they were kept."""
    keeping = _keeping(plan)
    certain = _certain(plan, sources(plan, ids), kept or {}, is_whole=not offsets)
    for program in plan.programs:
        feeding = dict(program.feeding)
        for partition in range(max((counts.get(each, 0) for each in program.inputs), default=0)):
            missing, is_named = _missing(program, partition, counts, offsets, ids)
            for store in program.stores if missing else ():
                fed = feeding.get(store.name, frozenset(program.inputs))
                if store.name in keeping and not fed.isdisjoint(missing):
                    yield LostOffsets(
                        store.name,
                        keeping[store.name],
                        program.index,
                        partition,
                        missing,
                        is_certain=is_named or store.name in certain,
                        is_whole=not offsets,
                    )


def _missing(
    program: Program,
    partition: int,
    counts: Mapping[str, int],
    offsets: OffsetTexts,
    ids: TopicIds,
) -> tuple[tuple[str, ...], bool]:
    """Return the inputs of a task that may have lost their offsets: all if none has one, else those
    that a text names; and whether a text does."""
    inputs = tuple(each for each in program.inputs if partition < counts.get(each, 0))
    texts = {each: offsets.get(TopicPartition(each, partition)) for each in inputs}
    without = tuple(each for each, text in texts.items() if text is None)
    if without == inputs:
        return inputs, False
    named = {digest for text in texts.values() for digest in _named(text or "")}
    return tuple(each for each in without if each in ids and _digests([ids[each]]) in named), True


def _certain(
    plan: Plan, now: Mapping[str, str], kept: Mapping[str, str], *, is_whole: bool
) -> set[str]:
    """Return the stores whose rows come of records of the inputs that they have now."""
    same = {name for name, each in kept.items() if now.get(name) == each}
    if is_whole:
        same |= _keeping(plan).keys() - kept.keys()
    return same - plan.clocked_stores()


def _keeping(plan: Plan) -> dict[str, str | None]:
    """Return the stores that keep rows of their own while the app is stopped: in a changelog, or on
    disk alone."""
    return {
        store.name: store.changelog(plan.app)
        for program in plan.programs
        for store in program.stores
        if store.source_topic is None and (store.is_logged or not store.is_in_memory)
    }


def _digests(ids: Iterable[Uuid]) -> str:
    return "".join(sorted(f"{crc32(each):08x}" for each in ids if any(each)))


def _named(text: str) -> set[str]:
    """Return the inputs that a text names; none if it has another form."""
    try:
        found: Any = json.loads(text)[_INPUTS]
        return {found[at : at + 8] for at in range(0, len(found), 8)}
    except (ValueError, TypeError, KeyError):
        return set()
