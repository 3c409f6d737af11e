"""What a task and its runner tell each other: one JSON object a line. No IO.

Task to runner: `start` (kind, name, topic, config, clients, group, offset, is_paused), `pause`,
`resume`, `stop`. Runner to task: `session`, `started`, `progress`, `offset`, `paused`, `finished`,
`failed`, `stopped`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from moldau.spark.ranges import IDS

Message = dict[str, Any]

START: Final = "start"
PAUSE: Final = "pause"
RESUME: Final = "resume"
STOP: Final = "stop"

SINK: Final = "sink"
SOURCE: Final = "source"


def dump(message: Message) -> bytes:
    """One line without its end."""
    return json.dumps(message, separators=(",", ":"), default=str).encode()


def parse(line: bytes) -> Message:
    """What `dump` made; ValueError for anything else."""
    found = json.loads(line)
    if not isinstance(found, dict) or "type" not in found:
        raise ValueError("a message is a JSON object with a type")
    return found


def progress_of(progress: Message) -> Message:
    """What is worth telling of a StreamingQueryProgress."""
    source = (progress.get("sources") or [{}])[0]
    return {
        "type": "progress",
        "query": progress.get("name"),
        "batch": progress.get("batchId"),
        "rows": progress.get("numInputRows", 0),
        "input_rows_per_second": progress.get("inputRowsPerSecond", 0.0),
        "processed_rows_per_second": progress.get("processedRowsPerSecond", 0.0),
        "duration_ms": progress.get("durationMs", {}),
        "end": _offsets(source.get("endOffset")),
        "latest": _offsets(source.get("latestOffset")),
    }


def lag_of(message: Message) -> int | None:
    """How many offsets lie between the end of the last batch and the ends of the logs."""
    end, latest = message.get("end"), message.get("latest")
    if not isinstance(end, dict) or not isinstance(latest, dict):
        return None
    lags: list[int] = [
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    ]
    return sum(lags)


def _offsets(given: Any) -> Any:
    """Spark gives them as text or parsed already. The ids of topics are left out."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if isinstance(given, dict):
        return {name: each for name, each in given.items() if name != IDS}
    return given
