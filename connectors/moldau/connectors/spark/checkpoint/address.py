"""Where the checkpoints of a connector lie: a directory on this machine, or a URI that Spark knows.

    <checkpoint.location>/<connector>/                    the folder of a connector with one query
    <checkpoint.location>/<connector>/topics/<topic>/     the folder of the query of one topic

Only Spark can read a URI, and fsspec if it knows the protocol. Code that reads or writes files of a
checkpoint checks `is_local` first.
"""

from __future__ import annotations

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


def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it. Do nothing if it does not exist."""
    if not path.is_dir():
        return
    # In this order the contents of a directory come before the directory.
    for each in sorted(path.rglob("*"), reverse=True):
        if each.is_dir() and not each.is_symlink():
            each.rmdir()
        else:
            each.unlink()
    path.rmdir()
