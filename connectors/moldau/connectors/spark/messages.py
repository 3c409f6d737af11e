"""The messages between a task and its runner: one JSON object a line. No IO.

Task to runner: `start` (kind, name, topic, config, clients, group, offset, is_paused), `pause`,
`resume`, `stop`. Runner to task: `session`, `started`, `progress`, `offset`, `paused`, `finished`,
`failed`, `stopped`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from moldau.spark.ranges import is_topic

Message = dict[str, Any]
SendMessage = Callable[[Message], None]

START: Final = "start"
PAUSE: Final = "pause"
RESUME: Final = "resume"
STOP: Final = "stop"

SKIPPED: Final = "moldau_skipped"
"""The metric of a batch with `count` and `first`: the records that were skipped, and the place of
the first one."""

SINK: Final = "sink"
SOURCE: Final = "source"


def encode_message(message: Message) -> bytes:
    """Return the message as one line, without its line end."""
    return json.dumps(message, separators=(",", ":"), default=str).encode()


def parse_message(line: bytes) -> Message:
    """Parse a line of `encode_message`. ValueError for anything else."""
    found = json.loads(line)
    if not isinstance(found, dict) or "type" not in found:
        raise ValueError("a message is a JSON object with a type")
    return found


def progress_message(progress: Message) -> Message:
    """Return the `progress` message for a StreamingQueryProgress of Spark."""
    sources = progress.get("sources") or [{}]
    source = sources[0]

    def total(name: str) -> float:
        """Return a number of all sources together. A Spark Connect server leaves it to us."""
        whole = progress.get(name)
        return sum(each.get(name) or 0 for each in sources) if whole is None else whole

    return {
        "type": "progress",
        "query": progress.get("name"),
        "batch": progress.get("batchId"),
        "rows": total("numInputRows"),
        "input_rows_per_second": total("inputRowsPerSecond"),
        "processed_rows_per_second": total("processedRowsPerSecond"),
        "duration_ms": progress.get("durationMs", {}),
        "end": _parse_offsets(source.get("endOffset")),
        "latest": _parse_offsets(source.get("latestOffset")),
        "skipped": _skipped_records(progress),
    }


def _skipped_records(progress: Message) -> Message | None:
    """Return the `count` of skipped records and the place of the `first`; None without any."""
    found = (progress.get("observedMetrics") or {}).get(SKIPPED)
    if found is None:
        return None
    metric: Message = found if isinstance(found, dict) else found.asDict()
    return metric if metric.get("count") else None


def record_lag(progress: Message) -> int | None:
    """Return the number of offsets between the end of the last batch and the ends of the logs.

    None if the `progress` message has no offsets by topic and partition.
    """
    end, latest = progress.get("end"), progress.get("latest")
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    lags: list[int] = [
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    ]
    return sum(lags)


def _parse_offsets(given: Any) -> Any:
    """Return the offsets of topics only. Spark gives offsets as text or parsed."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if isinstance(given, dict):
        return {name: each for name, each in given.items() if is_topic(name)}
    return given
