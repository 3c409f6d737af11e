"""Where the checkpoints of a connector lie: a directory on this machine, or a URI that Spark knows.

    <checkpoint.location>/<connector>/                    the folder of a connector with one query
    <checkpoint.location>/<connector>/topics/<topic>/     the folder of the query of one topic

Only Spark can read a URI, and fsspec if it knows the protocol. Code that reads or writes files of a
checkpoint checks `is_local` first.

Each file of a log of Spark (`offsets`, `commits`, or `_spark_metadata`) is named after a batch:
`7`, or `9.compact`, which also holds the batches before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

TOPICS: Final = "topics"
_LOCAL_SCHEMES: Final = ("", "file")


class CheckpointAddress:
    """The address of a connector's folder of checkpoints, or of the folder of one of its topics.

    `path` and `connector_path` are valid only if `is_local`; `uri` is always valid.
    """

    def __init__(self, location: str, connector: str, topic: str | None = None) -> None:
        self.location = location
        self.connector = connector
        self.topic = topic
        parts = urlsplit(location)
        self.is_local = parts.scheme in _LOCAL_SCHEMES
        self.connector_path = Path(parts.path if parts.scheme else location, connector)
        self.path = self.connector_path if topic is None else self.connector_path / TOPICS / topic
        below = "" if topic is None else f"/{TOPICS}/{topic}"
        self.uri = f"{location.rstrip('/')}/{connector}{below}"

    @property
    def name(self) -> str:
        """The name of the query that uses this folder.

        No two queries of all connectors share a name: a topic's name contains no colon.
        """
        return self.connector if self.topic is None else f"{self.connector}:{self.topic}"

    def child(self, name: str) -> str:
        """Return the address of a file or folder in this folder, as Spark reads it."""
        return str(self.path / name) if self.is_local else f"{self.uri}/{name}"


def local_path(address: str) -> Path | None:
    """Return the path of an address on this machine; None for a URI that only Spark can read."""
    parts = urlsplit(address)
    if parts.scheme not in _LOCAL_SCHEMES:
        return None
    return Path(parts.path if parts.scheme else address)


def read_batch_numbers(log: str) -> list[int] | None:
    """Return the batch numbers in a log directory: [] if the directory does not exist.

    None for a URI, which only Spark can read.
    """
    path = local_path(log)
    if path is None:
        return None
    return parse_batch_numbers([each.name for each in path.iterdir()]) if path.is_dir() else []


def parse_batch_numbers(file_names: Iterable[str]) -> list[int]:
    """Return the batch numbers that the file names of a log stand for."""
    plain = [name.removesuffix(".compact") for name in file_names]
    return [int(name) for name in plain if name.isdigit()]
