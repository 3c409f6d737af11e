"""Kafka's answers as files: one line a question, without what the question says already.

A record is kept as its changes. A schema that several answers share stands once, under a number,
at the beginning of the file.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "answers"
_SCHEMAS = ("key_schema", "value_schema", "schema")


def path_of(suite: str) -> Path:
    return FOLDER / f"{suite}.jsonl"


def name_of(question: dict[str, Any]) -> str:
    """A short name of a question, the same as long as the question is."""
    text = json.dumps(question, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write(suite: str, asked: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
    schemas: dict[str, int] = {}
    lines = []
    for question, answer in zip(asked, answers, strict=True):
        slim = _numbered(_changes(question, answer), schemas)
        lines.append(json.dumps([name_of(question), slim], separators=(",", ":")))
    table = [json.loads(text) for text in schemas]
    head = json.dumps(table, separators=(",", ":"))
    FOLDER.mkdir(exist_ok=True)
    path_of(suite).write_text("".join(f"{line}\n" for line in [head, *lines]), encoding="utf-8")


def read(suite: str, asked: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The kept answers by the names of the questions; those to other questions are there too."""
    head, *lines = path_of(suite).read_text(encoding="utf-8").splitlines()
    table = json.loads(head)
    by_name = {name_of(question): question for question in asked}
    answers = {}
    for line in lines:
        name, slim = json.loads(line)
        complete = _filled(slim, table)
        if name in by_name and isinstance(complete.get("record"), dict):
            before = by_name[name]["record"]
            record = {part: before[part] for part in _parts(before)}
            complete["record"] = {**record, **complete["record"]}
        answers[name] = complete
    return answers


def _parts(record: dict[str, Any]) -> list[str]:
    return [part for part in record if part not in ("is_sink", "offset")]


def _changes(question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    after = answer.get("record")
    if not isinstance(after, dict):
        return answer
    before = question["record"]
    return {"record": {part: value for part, value in after.items() if value != before[part]}}


def _numbered(answer: Any, schemas: dict[str, int]) -> Any:
    if isinstance(answer, list):
        return [_numbered(item, schemas) for item in answer]
    if not isinstance(answer, dict):
        return answer
    slim = {}
    for name, value in answer.items():
        if name in _SCHEMAS and isinstance(value, dict):
            slim[name] = schemas.setdefault(json.dumps(value), len(schemas))
        else:
            slim[name] = _numbered(value, schemas)
    return slim


def _filled(slim: Any, table: list[Any]) -> Any:
    if isinstance(slim, list):
        return [_filled(item, table) for item in slim]
    if not isinstance(slim, dict):
        return slim
    return {
        name: table[value] if name in _SCHEMAS and isinstance(value, int) else _filled(value, table)
        for name, value in slim.items()
    }
