"""The Streams DSL: topologies, state and the engines that run them."""

from __future__ import annotations

from moldau.streams.dsl.app import Streams
from moldau.streams.dsl.grouped import Grouped
from moldau.streams.dsl.stores import StateStore
from moldau.streams.dsl.stream import Stream
from moldau.streams.dsl.suppression import until_close, until_time
from moldau.streams.dsl.table import Table
from moldau.streams.engine.operators.process import Context, Record
from moldau.streams.plan.joins import within
from moldau.streams.plan.policies import dead_letter, retry
from moldau.streams.problems import RecordFailed, StreamsError, TopologyError
from moldau.streams.query.asking import AsyncQuery, Query
from moldau.streams.query.questions import BadQuery, NotHere, QueryFailed, Row, StoreUnavailable
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.windowed import Windowed
from moldau.streams.windows import count_window, hopping, session, sliding, tumbling, unlimited

__all__ = [
    "AsyncQuery",
    "BadQuery",
    "Codec",
    "Context",
    "Grouped",
    "NotHere",
    "Query",
    "QueryFailed",
    "Record",
    "RecordFailed",
    "Row",
    "StateStore",
    "StoreUnavailable",
    "Stream",
    "Streams",
    "StreamsError",
    "Table",
    "TopologyError",
    "Windowed",
    "count_window",
    "dead_letter",
    "hopping",
    "retry",
    "session",
    "sliding",
    "tumbling",
    "unlimited",
    "until_close",
    "until_time",
    "within",
]
