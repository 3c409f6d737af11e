"""Where ours answers otherwise than Kafka Streams, on purpose.

A script by hand names the difference that it shows, and keeps our answers beside Kafka's. Scripts
from seeds are explained by a rule, if one difference is all that there is between both answers.
A difference that no script shows any more fails its test, so that the table may only shrink.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

from tests.streams.kafka.language import Answer, Script


@dataclass(frozen=True, slots=True)
class Difference:
    """What each of both does, in words for docs/streams.md."""

    theirs: str
    ours: str


DIFFERENCES: dict[str, Difference] = {
    "lost windows": Difference(
        "emit on window close loses the results of windows when time jumps over their retention",
        "every window that is over is emitted once",
    ),
    "held-up pads": Difference(
        "a record of a left or outer join that found no partner waits for later records of "
        "other windows, too",
        "it comes out as soon as its own window and grace are over",
    ),
    "initial values": Difference(
        "an aggregate that is grouped again takes back its initial value first: "
        "a count of counts deletes a group `0` that never was",
        "only what was seen is taken back",
    ),
    "suppressed changes": Difference(
        "what `suppress` lets out takes back the update before it, which nothing downstream saw",
        "it takes back what was let out before",
    ),
    "windows held back": Difference(
        "a join sees a window that `suppress` holds back as its initial value: a count as `0`",
        "it sees no row until the window is let out",
    ),
    "tables without a store": Difference(
        "a filter of a table without a store (`builder.table(topic)` without `Materialized`) sends "
        "a deletion for each row that does not match, even of a key that was never there",
        "every table has a store, so a filter deletes only what it has let through, as Kafka "
        "Streams does for a table with a store",
    ),
    "sessions in place": Difference(
        "a session that is updated without a change of its bounds does not take back its old value",
        "it does, so that what follows stays right",
    ),
    "keyless repartition": Difference(
        "`repartition()` drops records without a key",
        "they go through; only what keeps state by key leaves them out",
    ),
    "shared time": Difference(
        "each stream of a cogroup has its own time, so a record may be late in one of them only",
        "all streams of a cogroup share one time",
    ),
    "partly late": Difference(
        "a record that is too late for its own sliding window is missing in later windows as well",
        "it counts in the sliding windows that are still open",
    ),
    "deleted sliding windows": Difference(
        "an aggregate of null makes the record unknown to other sliding windows",
        "it deletes that window only",
    ),
    "told twice": Difference(
        "an update of a sliding window may be sent twice",
        "it is sent once",
    ),
    "unmatched updates": Difference(
        "a row that changes while the row of its foreign key is missing sends nothing, even if "
        "its last result is on the way out",
        "it sends a deletion",
    ),
    "tables with themselves": Difference(
        "a table that joins itself sends each result twice, and no deletion",
        "it sends each result once, and deletions",
    ),
    "keyless grace": Difference(
        "a left join with grace fails for a record without a key (4.3.1)",
        "it comes out with None on the right",
    ),
}


def _pads_come_earlier(script: Script, theirs: Answer, ours: Answer) -> bool:
    """Ours gives all that theirs gives, pads at the same input or earlier, and the rest alike."""
    if not any(f"{kind}-join" in line for kind in ("left", "outer") for line in script.topology):
        return False
    if [_matched(each) for each in theirs] != [_matched(each) for each in ours]:
        return False
    early: list[str] = []
    for their_outputs, our_outputs in zip(theirs, ours, strict=True):
        early += [output for output in our_outputs if _is_pad(output)]
        for output in filter(_is_pad, their_outputs):
            # A pad has the headers of the record that sets it off.
            match = next((each for each in early if _bare(each) == _bare(output)), None)
            if match is None:
                return False
            early.remove(match)
    return True


def _is_pad(output: str) -> bool:
    value = output.split(" ")[2]
    return value.startswith("-/") or value.endswith("/-")


def _matched(outputs: list[str]) -> list[str]:
    return [output for output in outputs if not _is_pad(output)]


def _bare(output: str) -> str:
    return output.partition(" +")[0]


def _is_told_once(script: Script, theirs: Answer, ours: Answer) -> bool:
    if not any(" sliding " in line for line in script.topology):
        return False
    return [[each for each, _ in groupby(outputs)] for outputs in theirs] == ours


def _initial_is_not_deleted(script: Script, theirs: Answer, ours: Answer) -> bool:
    """Theirs without deletions of the groups of initial values is ours."""
    if not any(" | group-by " in line for line in script.topology):
        return False
    initial = ("out 0 null ", "out . null ", "out null null ")
    return [[each for each in row if not each.startswith(initial)] for row in theirs] == ours


def _unmatched_is_deleted(script: Script, theirs: Answer, ours: Answer) -> bool:
    """Ours without deletions of rows that are not there is theirs."""
    if not any(" fk-join " in line for line in script.topology):
        return False
    rows: dict[str, str] = {}
    for their_outputs, our_outputs in zip(theirs, ours, strict=True):
        kept = []
        for output in our_outputs:
            key, value = output.split(" ")[1:3]
            if value == "null" and rows.get(key, "null") == "null" and output not in their_outputs:
                continue
            rows[key] = value
            kept.append(output)
        if kept != their_outputs:
            return False
    return True


def _suppressed_deletes_otherwise(script: Script, theirs: Answer, ours: Answer) -> bool:
    """Both are the same without deletions of rows that are not there: what a row that was held back
    takes back decides whether there is one."""
    lines = script.topology
    if not any(" suppress " in each for each in lines) or not any(" fk-" in each for each in lines):
        return False
    return _without_idle_deletions(theirs) == _without_idle_deletions(ours)


def _without_idle_deletions(answer: Answer) -> Answer:
    rows: dict[str, str] = {}
    found = []
    for outputs in answer:
        kept = []
        for output in outputs:
            key, value = output.split(" ")[1:3]
            if value != "null" or rows.get(key, "null") != "null":
                kept.append(output)
            rows[key] = value
        found.append(kept)
    return found


RULES: dict[str, Callable[[Script, Answer, Answer], bool]] = {
    "held-up pads": _pads_come_earlier,
    "told twice": _is_told_once,
    "initial values": _initial_is_not_deleted,
    "unmatched updates": _unmatched_is_deleted,
    "suppressed changes": _suppressed_deletes_otherwise,
}


def explanation(script: Script, theirs: Answer, ours: Answer) -> str | None:
    """The difference by which ours follows from theirs; None if there is none."""
    for name, explains in RULES.items():
        if len(theirs) == len(ours) and explains(script, theirs, ours):
            return name
    return None
