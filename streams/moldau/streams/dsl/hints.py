"""What to write instead of an operator that a stream, a table or a group does not have."""

from __future__ import annotations

import re
from typing import Final

from moldau.streams.problems import TopologyError

_FOLDS: Final = (
    "aggregate", "collect", "count", "distinct", "max", "mean", "min", "reduce", "sum", "top_k",
)  # fmt: skip
_OF_STREAMS: Final = (
    "branch", "flat_map", "flat_map_pairs", "map", "map_batch", "merge", "peek", "process",
    "repartition", "select_key", "to",
)  # fmt: skip


_OF_KAFKA: Final = {
    "foreach": "peek", "not_filter": "filter_not", "through": "repartition",
    "to_stream": "changes", "windowed_by": "window",
}  # fmt: skip
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class NoSuchOperator(TopologyError, AttributeError):
    """A stream, a table or a group was asked for an operator of another one."""


def no_operator(owner: type, name: str) -> AttributeError:
    """Return the error for a method `name` that the class does not have. The name may be the one of
    Kafka Streams: mapValues, toStream."""
    plain = _HUMP.sub("_", name).lower()
    here = _OF_KAFKA.get(plain, plain)
    if here != name and hasattr(owner, here):
        return NoSuchOperator(f"{name}: its name is .{here}(...) here")
    hint = _hint(owner.__name__, here)
    if hint is None:
        return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")
    return NoSuchOperator(hint)


def _hint(kind: str, name: str) -> str | None:
    if kind == "Stream":
        if name in (*_FOLDS, "window", "cogroup"):
            how = "window(...)" if name == "window" else f"{name}(...)"
            return (
                f"{name}: a stream has no {name}: group its records first, with "
                f".group_by_key().{how}, or by another key with .group_by(...).{how}"
            )
        if name == "changes":
            return "changes: a stream consists of records already: write .to(...) or others"
        if name == "suppress":
            return "suppress: it holds back the updates of a table: make one first, as with count"
    if kind == "Table":
        if name in _OF_STREAMS:
            return f"{name}: it is for streams: .changes() gives the updates of a table as one"
        if name in (*_FOLDS, "group_by_key", "window"):
            return (
                f"{name}: group the rows of a table by another key first: "
                ".group_by(lambda key, value: (key, value))"
            )
    if kind == "Grouped" and name in (*_OF_STREAMS, "changes", "filter", "join", "suppress"):
        return f'{name}: aggregate the group first, for example with .count(name="...")'
    return None
