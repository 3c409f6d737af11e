"""How far a mirror is, what is reported of it, and when a run ends. Volatile cores; no IO.

Left are the offsets from where the mirror continues to the end of each partition. Offsets of
transaction markers hold no record for a reader, so a partition may be at its end while offsets are
left. `on_end_reached` says so, after a look (`running`).

What is copied of a partition may move back to its beginning: its topic was deleted and created
anew. Then all of the new topic is left.

A run looks at its flows each half second. A look that a cluster does not answer decides nothing. A
problem is reported once. A connector that the worker restarts in vain for `FAILED_S` ends `--once`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from moldau.client import ErrorCode, KafkaError, TopicPartition
from moldau.connect.api import ConnectError
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.amounts import counted

Offsets = Mapping[TopicPartition, int]
LOOK_S: Final = 0.5
LINE_S: Final = 10.0
FAILED_S: Final = 20.0
_CLEAR: Final = "\r\x1b[K"
GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_UNCHOSEN: Final = (
    "no topic of the source is chosen; --dry-run names the patterns that match nothing"
)


@dataclass(frozen=True, slots=True)
class Ready:
    """What is known now."""

    topics: int
    partitions: int
    copied: int
    left: int
    unsure: tuple[TopicPartition, ...]
    """Partitions with offsets left that have not moved since the last look: they may be at their
    end."""

    @property
    def is_done(self) -> bool:
        return self.left == 0

    def line(self, seconds: float) -> str:
        """Return the progress as one line; `seconds` since the start."""
        rate = self.copied / seconds if seconds > 0 else 0.0
        return (
            f"{counted(self.topics, 'topic')}, {counted(self.partitions, 'partition')}: "
            f"{self.copied:,} copied "
            f"({rate:,.0f}/s), {self.left:,} to go"
        )


@dataclass(slots=True)
class CopyProgress:
    """The progress of one flow since its start."""

    has_fixed_ends: bool = False
    """Whether the goal is the end that a partition had when it was first seen, or an earlier end
    that it has by now."""
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    """Where each partition's copy began in this run."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    at: dict[TopicPartition, int] = field(default_factory=dict)
    _copied_before: int = 0
    """Records that were copied of topics that others have replaced since."""
    _moved: set[TopicPartition] = field(default_factory=set)
    _reached: dict[TopicPartition, int] = field(default_factory=dict)

    def on_look(self, begins: Offsets, ends: Offsets, stored: Offsets) -> None:
        """The source's partitions begin and end here, and are copied up to `stored`. Leave out what
        is stored of an earlier topic."""
        goals = self.ends if self.has_fixed_ends else {}
        self.ends = {where: min(goals.get(where, end), end) for where, end in ends.items()}
        self._moved.clear()
        for where, begin in begins.items():
            at = max(stored.get(where, begin), begin)
            self.begins.setdefault(where, at)
            if at != self.at.get(where):
                self._moved.add(where)
            if at < self.at.get(where, at):
                self._begin_anew(where, at, ends[where])
            self.at[where] = at

    def _begin_anew(self, where: TopicPartition, at: int, end: int) -> None:
        self._copied_before += self.at[where] - self.begins[where]
        self.begins[where], self.ends[where] = at, end
        self._reached.pop(where, None)

    def on_end_reached(self, where: TopicPartition, end: int) -> None:
        """Between what is copied and `end` there is no record."""
        self._reached[where] = end

    def ready(self) -> Ready:
        """Return what is known now."""
        left = {
            where: max(0, end - max(self.at.get(where, 0), self._reached.get(where, 0)))
            for where, end in self.ends.items()
        }
        return Ready(
            len({where.topic for where in self.ends}),
            len(self.ends),
            self._copied_before
            + sum(self.at[where] - begin for where, begin in self.begins.items()),
            sum(left.values()),
            tuple(where for where, count in left.items() if count and where not in self._moved),
        )


@dataclass(frozen=True, slots=True)
class FlowLook:
    """What one look has found of a flow."""

    name: str
    progress: Ready
    is_running: bool = True
    """Whether its tasks ran before the look."""
    failures: Sequence[str] = ()
    refused: Sequence[str] = ()
    """Lines with the topics that are not copied, as the target does not take them."""


@dataclass(frozen=True, slots=True)
class SessionReady:
    """What the shell must do, in this order: write both texts, fail, look."""

    wake: float
    err: str = ""
    out: str = ""
    failure: Exception | None = None
    is_look_due: bool = False
    is_over: bool = False


class SessionCore:
    """The reports and the end of one run."""

    def __init__(self, now: float, *, is_once: bool, is_terminal: bool) -> None:
        self._is_once = is_once
        self._clear = _CLEAR if is_terminal else ""
        self._began = self._line_at = now
        self._look_at = now + LOOK_S
        self._looks: Sequence[FlowLook] | None = None
        self._failed_since: float | None = None
        self._failure: Exception | None = None
        self._reported: set[str] = set()
        self._shown: dict[str, str] = {}

    def on_look(self, looks: Sequence[FlowLook], now: float) -> None:
        """All flows were looked at."""
        self._looks, self._look_at = looks, now + LOOK_S
        failures = [line for each in looks for line in each.failures]
        if not failures:
            self._failed_since = None
        elif self._failed_since is None:
            self._failed_since = now
        elif self._is_once and now - self._failed_since > FAILED_S:
            self._failure = ConnectError(f"nothing more is copied: {failures[0]}")

    def on_error(self, error: KafkaError, now: float) -> None:
        """A look has failed. If a cluster does not answer, the connectors say so and wait."""
        self._look_at = now + LOOK_S
        if not error.retriable and error.code not in GONE:
            self._failure = without_frames(error)

    def ready(self, now: float) -> SessionReady:
        """Return what is to be done now, each thing once."""
        looks, self._looks = self._looks, None
        if looks is None:
            return SessionReady(self._look_at, "", "", self._failure, now >= self._look_at)
        is_over = self._is_once and all(each.is_running and each.progress.is_done for each in looks)
        err, out = self._problems(looks), ""
        if self._clear and len(looks) == 1 and not is_over:
            err += self._clear + self._line(looks[0], now)
        elif is_over or now >= self._line_at:
            out = self._lines(looks, now)
            err += self._clear
        return SessionReady(self._look_at, err, out, self._failure, is_over=is_over)

    def _problems(self, looks: Sequence[FlowLook]) -> str:
        lines = [line for each in looks for line in (*each.failures, *each.refused)]
        lines += [f"{each.name}: {_UNCHOSEN}" for each in looks if not each.progress.topics]
        new = [line for line in lines if line not in self._reported]
        self._reported.update(new)
        return "".join(f"{self._clear}moldau: {line}\n" for line in new)

    def _lines(self, looks: Sequence[FlowLook], now: float) -> str:
        """Return the lines of the flows whose figures have changed."""
        self._line_at = now + LINE_S
        before, self._shown = self._shown, {each.name: each.progress.line(0) for each in looks}
        changed = [each for each in looks if self._shown[each.name] != before.get(each.name)]
        return "".join(f"{self._line(each, now)}\n" for each in changed)

    def _line(self, look: FlowLook, now: float) -> str:
        return f"{look.name}: {look.progress.line(now - self._began)}"
