"""Transcripts of Apache Kafka as data: one file a scenario, one line a case and like versions.

Versions of a case that Kafka answered alike share a line, so that a file can be read, and what a
new Kafka answers otherwise is seen in `git diff`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.differential.talk import Entry

FOLDER: Final = Path(__file__).with_name("kafka")


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def write(name: str, entries: Sequence[Entry]) -> None:
    """Replaces what was kept of that scenario."""
    FOLDER.mkdir(exist_ok=True)
    lines = [json.dumps(line, separators=(",", ":")) for line in _grouped(entries)]
    path_of(name).write_text("".join(f"{line}\n" for line in lines), encoding="ascii")


def read(name: str) -> list[Entry]:
    """What was kept; nothing if the scenario is new."""
    path = path_of(name)
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii").splitlines()
    return [entry for line in lines for entry in _ungrouped(json.loads(line))]


def scenarios_kept() -> set[str]:
    return {path.stem for path in FOLDER.glob("*.jsonl")}


def _grouped(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for entry in entries:
        last = lines[-1] if lines else None
        same = last is not None and (last["case"], last["api"], last["answer"], last["waited"]) == (
            entry.label,
            entry.api,
            entry.outcome,
            entry.waited,
        )
        if last is not None and same:
            last["asked"].append([entry.version, entry.asked])
        else:
            lines.append(
                {
                    "case": entry.label,
                    "api": entry.api,
                    "asked": [[entry.version, entry.asked]],
                    "waited": entry.waited,
                    "answer": entry.outcome,
                }
            )
    return lines


def _ungrouped(line: dict[str, Any]) -> list[Entry]:
    return [
        Entry(line["case"], line["api"], version, asked, line["answer"], line["waited"])
        for version, asked in line["asked"]
    ]
