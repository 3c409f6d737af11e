"""The marker that a log directory was closed cleanly, with everything in it durable.

Invariant: the marker is made when nothing more will be written, and is durably removed before the
first write of the next run. Without it, logs are recovered from their recovery points.

It holds the epoch of the broker's registration (KIP-966). With it, a controller can distinguish a
broker that came back with all its data from one that may have lost the end of its logs.
"""

from __future__ import annotations

import json

from moldau.broker.log.names import CLEAN_SHUTDOWN
from moldau.runtime.files import Files

NO_BROKER_EPOCH = -1


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int = NO_BROKER_EPOCH) -> None:
    """Mark the directory as closed cleanly. Durable on return."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    files.write_text_atomic(f"{directory}/{CLEAN_SHUTDOWN}", text)


def take_clean_shutdown(files: Files, directory: str) -> int | None:
    """Remove the marker, durably. Return the broker epoch that it held, -1 for none, or None
    without a marker.

    A marker that cannot be parsed still counts: older brokers left an empty file.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not files.exists(path):
        return None
    epoch = NO_BROKER_EPOCH
    try:
        content = json.loads(files.read_text(path))
        if isinstance(content, dict) and isinstance(content.get("brokerEpoch"), int):
            epoch = content["brokerEpoch"]
    except ValueError:
        pass
    files.remove(path)
    files.sync_dir(directory)
    return epoch
