"""The specification of a store, as plain data. Its backing and changelog topic are made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.serdes.codec import Codec

DAY_MS = 86_400_000
_SLICES_MAX = 1000

OWN_TIMES: Final = {"message.timestamp.type": "CreateTime"}
"""What the topics that an app makes need where brokers give records their own time by default."""

_PLAIN_KEYS: Final = frozenset({"str", "int", "float", "bytes", "bool"})


class StoreKind(Enum):
    KEY_VALUE = "key-value"
    WINDOW = "window"
    SESSION = "session"
    VERSIONED = "versioned"
    # Records in order of time, for joins and suppression.
    BUFFER = "buffer"


AFTER_KEY: Final = {StoreKind.WINDOW: 12, StoreKind.SESSION: 16}
"""How many bytes of a changelog's key come after the key of the records."""


def slice_of(span_ms: int, retention_ms: int) -> int:
    """Return the length of a slice of records: those that one record can meet lie in at most two
    slices, and the retention does not have too many slices."""
    return max(1, span_ms, retention_ms // _SLICES_MAX)


@dataclass(frozen=True, slots=True)
class Migration:
    """How the values of a store become those of its next version; None deletes the row."""

    before: Codec
    """The codec of the values that the function is called with."""
    function: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """The specification of a store.

    `retention_ms` is None for stores that keep rows until they are deleted; in a key-value store of
    a user it is the time to live of a row. `source_topic` names
    the input topic of a table. That topic is then the changelog: the store is restored from it, and
    nothing is written to it.
    """

    name: str
    kind: StoreKind
    key: Codec
    value: Codec
    retention_ms: int | None = None
    is_logged: bool = True
    source_topic: str | None = None
    # The size of all windows, if it is one. It completes windowed keys, which hold only the start.
    window_ms: int | None = None
    # Whether rows carry a sequence number, so that equal keys and times stay apart.
    has_duplicates: bool = False
    # For records and sessions: how much time a slice of rows spans.
    slice_ms: int | None = None
    # Whether rows are also found in the order of their times.
    is_timed: bool = False
    # For windowed aggregates: the windows as text, without what may change while they are kept.
    windows: str | None = None
    # Whether workers keep the rows in memory, and restore them from the changelog at each start.
    is_in_memory: bool = False
    topic_config: dict[str, str] = field(default_factory=dict)
    # The version of the values, and by earlier version how they become those of the next one.
    version: int = 1
    migrations: Mapping[int, Migration] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        """What a database records about its rows: the kind, and after a slash their layout.

        Rows with another layout are deleted, and rebuilt from the changelog.
        """
        details = [] if self.slice_ms is None else [f"slices of {self.slice_ms} ms"]
        if self.is_timed:
            details.append("timed")
        return "/".join([self.kind.value, *details])

    @property
    def facts(self) -> dict[str, str]:
        """What the rows mean, by name. An app with other facts would misread the rows.

        The type of values is not among them: a value that does not fit its type is reported when it
        is read, and a type may grow, or a model may get another name. So may the model of a key.
        The rows of an input topic are what its producers wrote, whatever type the app declares.
        """
        facts = {} if self.windows is None else {"windows": self.windows}
        if self.source_topic is None and self.key.name in _PLAIN_KEYS:
            facts["keys"] = self.key.name
        return facts

    def changelog(self, app: str) -> str | None:
        """Return the topic to restore from; None for a store that is not logged."""
        if self.source_topic is not None:
            return self.source_topic
        return f"{app}-{self.name}-changelog" if self.is_logged else None

    def changelog_config(self) -> dict[str, str]:
        """Return the settings of the changelog topic, as Kafka Streams chooses them."""
        config = {"cleanup.policy": "compact", **OWN_TIMES}
        if self.kind in (StoreKind.WINDOW, StoreKind.SESSION) and self.retention_ms is not None:
            config["cleanup.policy"] = "compact,delete"
            config["retention.ms"] = str(self.retention_ms + DAY_MS)
        if self.kind is StoreKind.VERSIONED and self.retention_ms is not None:
            config["min.compaction.lag.ms"] = str(self.retention_ms + DAY_MS)
        return config | self.topic_config
