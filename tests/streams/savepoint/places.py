"""A place for savepoints that is no disk."""

from __future__ import annotations


class FakePlace:
    """The files of a savepoint in memory."""

    name = "here"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def names(self) -> list[str]:
        return sorted(self.files)

    def read(self, name: str) -> bytes:
        return self.files[name]

    def write(self, name: str, data: bytes) -> None:
        self.files[name] = data
