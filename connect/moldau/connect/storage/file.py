"""A log in one JSON file: a standalone worker's offsets.

The file is one object from key to value, both texts, and each append replaces the whole file: a
killed worker leaves either the old file or the new one. A file of thousands of partitions is still
small; for more, use distributed mode.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from moldau.connect.storage.log import Entry, KeyedLog, OnRecord
from moldau.errors import MoldauError
from moldau.runtime import Runtime


class StateDamaged(MoldauError):
    """The file of offsets cannot be read."""


class FileLog(KeyedLog):
    """A log in one file. Only one process may use the file."""

    def __init__(self, runtime: Runtime, path: str) -> None:
        self._runtime = runtime
        self._path = path
        self._entries: dict[str, str] = {}
        self._on_record: OnRecord | None = None

    async def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record
        files = self._runtime.files
        if files.exists(self._path):
            self._entries = _parse(self._path, files.read_text(self._path))
        for key, value in self._entries.items():
            on_record(key.encode(), value.encode())

    async def append(self, entries: Sequence[Entry]) -> None:
        assert self._on_record is not None, "the log was not started"
        for key, value in entries:
            if value is None:
                self._entries.pop(key.decode(), None)
            else:
                self._entries[key.decode()] = value.decode()
        text = json.dumps(self._entries, indent=1) + "\n"
        self._runtime.files.write_text_atomic(self._path, text)
        for key, value in entries:
            self._on_record(key, value)


def entries_of(path: str, text: str) -> list[Entry]:
    """Return the content of such a file. Raise StateDamaged."""
    return [(key.encode(), value.encode()) for key, value in _parse(path, text).items()]


def _parse(path: str, text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise StateDamaged(
            "the file of offsets is no JSON: restore it, or move it away to begin anew",
            path=path,
            error=str(error),
        ) from None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise StateDamaged("the file of offsets must be one object of texts", path=path)
    return found
