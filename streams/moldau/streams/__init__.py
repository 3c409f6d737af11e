"""The Streams DSL: topologies, state and the engines that run them.

Importing this package loads nothing: each name is loaded when it is first used. So `moldau --help`
and a worker that only shows its stores do not pay for the DSL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.streams.app import Streams
    from moldau.streams.dsl.grouped import Grouped
    from moldau.streams.dsl.stores import StateStore
    from moldau.streams.dsl.stream import Stream
    from moldau.streams.dsl.suppression import until_close, until_time
    from moldau.streams.dsl.table import Table
    from moldau.streams.engine.operators.process import Context, Record
    from moldau.streams.expressions.column import Column, coalesce, col, concat, count, lit, when
    from moldau.streams.plan.joins import within
    from moldau.streams.plan.policies import dead_letter, retry
    from moldau.streams.problems import (
        RecordFailed,
        ReplyFailed,
        ReplyTimeout,
        StreamsError,
        TopologyError,
    )
    from moldau.streams.query.asking import AsyncQuery, Query
    from moldau.streams.query.lifecycle import AppState
    from moldau.streams.query.questions import BadQuery, NotHere, QueryFailed, Row, StoreUnavailable
    from moldau.streams.replies.asker import Asker
    from moldau.streams.serdes.codec import Codec
    from moldau.streams.serdes.java import serde
    from moldau.streams.serdes.windowed import Windowed
    from moldau.streams.windows import count_window, hopping, session, sliding, tumbling, unlimited

# The public names of each module.
_MODULES = {
    "app": "Streams",
    "dsl.grouped": "Grouped",
    "dsl.stores": "StateStore",
    "dsl.stream": "Stream",
    "dsl.suppression": "until_close until_time",
    "dsl.table": "Table",
    "engine.operators.process": "Context Record",
    "expressions.column": "Column coalesce col concat count lit when",
    "plan.joins": "within",
    "plan.policies": "dead_letter retry",
    "problems": "RecordFailed ReplyFailed ReplyTimeout StreamsError TopologyError",
    "query.asking": "AsyncQuery Query",
    "query.lifecycle": "AppState",
    "query.questions": "BadQuery NotHere QueryFailed Row StoreUnavailable",
    "replies.asker": "Asker",
    "serdes.codec": "Codec",
    "serdes.java": "serde",
    "serdes.windowed": "Windowed",
    "windows": "count_window hopping session sliding tumbling unlimited",
}
_HOMES = {name: home for home, names in _MODULES.items() for name in names.split()}

__all__ = [
    "AppState", "Asker", "AsyncQuery", "BadQuery", "Codec", "Column", "Context", "Grouped",
    "NotHere", "Query", "QueryFailed", "Record", "RecordFailed", "ReplyFailed", "ReplyTimeout",
    "Row", "StateStore", "StoreUnavailable", "Stream", "Streams", "StreamsError", "Table",
    "TopologyError", "Windowed", "coalesce", "col", "concat", "count", "count_window",
    "dead_letter", "hopping", "lit", "retry", "serde", "session", "sliding", "tumbling",
    "unlimited", "until_close", "until_time", "when", "within",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
