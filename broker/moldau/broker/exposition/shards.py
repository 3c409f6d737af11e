"""The pages of the shards of a host as those of one node. No IO.

Invariants: a series stands once, whatever the number of shards that have it, and each line has the
label `shard`. A lag that its coordinator does not know, because another shard has the partition, is
made of what both of them say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from moldau.broker.exposition import table
from moldau.metrics.ring import EVERY_MS

_PIECE_LINES: Final = 2_000
_HELP: Final = "# HELP "
_TYPE: Final = "# TYPE "
_LABELS: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class _Series:
    """The lines of a series, from all shards."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.lines: list[str] = []


def merged(pages: Mapping[int, str]) -> Iterator[str]:
    """Yield one page of those of all shards."""
    found: dict[str, _Series] = {}
    for number, text in pages.items():
        _gather(found, number, text)
    _add_lags(found)
    for series in found.values():
        if series.lines:
            yield series.head
        for begin in range(0, len(series.lines), _PIECE_LINES):
            yield "\n".join((*series.lines[begin : begin + _PIECE_LINES], ""))


def _gather(found: dict[str, _Series], number: int, text: str) -> None:
    label = f'shard="{number}"'
    series = _Series("")
    head = ""
    for line in text.splitlines():
        if line.startswith(_HELP):
            head = f"{line}\n"
        elif line.startswith(_TYPE):
            name = line.split(" ", 3)[2]
            series = found.setdefault(name, _Series(f"{head}{line}\n"))
        elif line:
            series.lines.append(_labelled(line, label))


def _labelled(line: str, label: str) -> str:
    name, space, value = line.partition(" ")
    if "{" not in name:
        return f"{name}{{{label}}}{space}{value}"
    name, _, rest = line.partition("{")
    return f"{name}{{{label},{rest}"


def _values(found: Mapping[str, _Series], row: table.Row) -> Iterator[tuple[dict[str, str], float]]:
    """Yield the labels and the value of each line of a series. Values of labels stay escaped."""
    series = found.get(row.name)
    for line in () if series is None else series.lines:
        labels, _, value = line.rpartition(" ")
        yield dict(_LABELS.findall(labels)), float(value)


def _add_lags(found: dict[str, _Series]) -> None:
    """Add the lags of groups that their coordinators do not know."""
    ends = {
        (labels["topic"], labels["partition"]): end
        for labels, end in _values(found, table.current_offset)
    }
    known = {
        (labels["consumergroup"], labels["topic"], labels["partition"]): lag
        for labels, lag in _values(found, table.group_lag)
    }
    sums: dict[tuple[str, str, str], float | None] = {}
    added: list[str] = []
    for labels, offset in _values(found, table.group_offset):
        shard, group = labels["shard"], labels["consumergroup"]
        topic, partition = labels["topic"], labels["partition"]
        end = ends.get((topic, partition))
        lag = known.get((group, topic, partition))
        if lag is None and end is not None:
            lag = max(0.0, end - offset)
            text = f'shard="{shard}",consumergroup="{group}",topic="{topic}"'
            name = table.group_lag.name
            added.append(f'{name}{{{text},partition="{partition}"}} {int(lag)}')
        before = sums.get((shard, group, topic), 0.0)
        sums[shard, group, topic] = None if lag is None or before is None else before + lag
    if not added:
        return
    _series_of(found, table.group_lag).lines += added
    summed = _series_of(found, table.group_lag_sum)
    summed.lines = [
        f'{table.group_lag_sum.name}{{shard="{shard}",consumergroup="{group}",topic="{topic}"}}'
        f" {int(lag)}"
        for (shard, group, topic), lag in sums.items()
        if lag is not None
    ]


def _series_of(found: dict[str, _Series], row: table.Row) -> _Series:
    head = f"{_HELP}{row.name} {row.doc}\n{_TYPE}{row.name} {row.kind}\n"
    return found.setdefault(row.name, _Series(head))


def added_up(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the sums of what shards answered at `/history`; None without any. Samples of about the
    same time are one. A sum with an unknown part is unknown."""
    if not parts:
        return None
    sums: dict[int, list[float | None]] = {}
    for part in parts:
        for at_ms, *values in _slots(part["readings"]):
            before = sums.get(at_ms)
            sums[at_ms] = values if before is None else list(map(_sum, before, values))
    readings = [[at_ms, *values] for at_ms, values in sorted(sums.items())]
    return {**parts[0], "readings": readings}


def _slots(readings: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    slots = {round(row[0] / EVERY_MS) * EVERY_MS: row[1:] for row in readings}
    for at_ms, values in slots.items():
        yield at_ms, *values


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
