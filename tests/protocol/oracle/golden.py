"""Answers of Kafka's own classes, kept as data: what `renew` writes and the tests read.

`golden/<folder>.jsonl` has one object a line, of one of two shapes:

- `{"message", "version", "json", "hex"}`: the JSON of a value and its bytes in that version;
- `{"message", "version", "json", "as": {version: hex or null}}`: the same value written in each
  version of the message, null where Kafka refuses because something would be lost.

`errors.json` and `apis.json` hold Kafka's error codes and API keys.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "golden"
SAMPLES_A_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """The bytes of a value in one version."""

    folder: str
    message: str
    version: int
    json: dict[str, Any]
    data: bytes

    def __str__(self) -> str:
        return f"{self.message}-{self.version}"


@dataclass(frozen=True, slots=True)
class Downgrade:
    """A value of one version written in all of them; None where that is refused."""

    folder: str
    message: str
    version: int
    json: dict[str, Any]
    written: dict[int, bytes | None]


def samples() -> tuple[Sample, ...]:
    return _read()[0]


def downgrades() -> tuple[Downgrade, ...]:
    return _read()[1]


@functools.cache
def samples_by_message() -> dict[str, list[Sample]]:
    """All samples of a message, oldest version first; of each version the full value first."""
    found: dict[str, list[Sample]] = {}
    for sample in samples():
        found.setdefault(sample.message, []).append(sample)
    return found


def errors() -> list[dict[str, Any]]:
    """Kafka's error codes: `code`, `name`, `retriable`, `refreshes_metadata`."""
    return _table("errors")


def apis() -> list[dict[str, Any]]:
    """Kafka's API keys: `key`, `name`, `listeners`, and what each version of them is like."""
    return _table("apis")


def write(found: Iterable[Sample | Downgrade]) -> None:
    """Replace the .jsonl files by these, in this order."""
    by_folder: dict[str, list[str]] = {}
    for item in found:
        by_folder.setdefault(item.folder, []).append(_line(item))
    for old in FOLDER.glob("*.jsonl"):
        old.unlink()
    FOLDER.mkdir(exist_ok=True)
    for folder, lines in by_folder.items():
        (FOLDER / f"{folder}.jsonl").write_text("".join(lines), encoding="ascii")


def write_table(name: str, rows: list[dict[str, Any]]) -> None:
    """Replace `errors.json` or `apis.json`: a JSON list with a row a line."""
    rows_text = ",\n".join(json.dumps(row, separators=(", ", ": ")) for row in rows)
    (FOLDER / f"{name}.json").write_text(f"[\n{rows_text}\n]\n", encoding="ascii")


def _line(item: Sample | Downgrade) -> str:
    line: dict[str, Any] = {"message": item.message, "version": item.version, "json": item.json}
    if isinstance(item, Sample):
        line["hex"] = item.data.hex()
    else:
        line["as"] = {
            str(version): None if data is None else data.hex()
            for version, data in item.written.items()
        }
    return json.dumps(line, separators=(",", ":")) + "\n"


@functools.cache
def _read() -> tuple[tuple[Sample, ...], tuple[Downgrade, ...]]:
    found: list[Sample] = []
    rewritten: list[Downgrade] = []
    for path in sorted(FOLDER.glob("*.jsonl")):
        for text in path.read_text(encoding="ascii").splitlines():
            line = json.loads(text)
            key = (path.stem, line["message"], line["version"], line["json"])
            if "hex" in line:
                found.append(Sample(*key, bytes.fromhex(line["hex"])))
            else:
                rewritten.append(Downgrade(*key, _written(line["as"])))
    return tuple(found), tuple(rewritten)


def _written(answers: dict[str, str | None]) -> dict[int, bytes | None]:
    return {
        int(version): None if data is None else bytes.fromhex(data)
        for version, data in answers.items()
    }


def _table(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))
    return rows
