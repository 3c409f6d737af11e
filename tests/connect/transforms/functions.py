"""Functions for the tests of the Python transform."""

from __future__ import annotations

from moldau.connect.api import ConnectRecord


def shout(record: ConnectRecord, mark: str = "!") -> ConnectRecord | None:
    return None if record.value is None else record.replace(value=f"{record.value}{mark}")


def wrong(record: ConnectRecord) -> object:
    return "no record"


NUMBER = 5
