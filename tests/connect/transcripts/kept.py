"""What Java's worker answered, and where ours differs on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

ANSWERS: Final = Path(__file__).parent / "answers.json"

OTHER_STATUS: Final = {
    "alter nonsense": "a body that cannot be read is the client's mistake: 400, not 500",
    "create bad state": "a body that cannot be read is the client's mistake: 400, not 500",
}
OTHER_WORDS: Final = {
    "alter sink strangely": "it says what the keys must be",
    "create unknown class": "it lists names, not descriptions of classes",
    "create without class": "it names the key",
    "create without name": "it names the key",
    "settings of no plugin": "it says where the names are",
}
OWN_KEYS: Final = frozenset({"version", "guarantee", "inode"})
"""Ours alone, or of the implementation."""


def kept() -> dict[str, Any]:
    """The answers of Java's worker by the names of the steps."""
    return dict(json.loads(ANSWERS.read_text()))


def write(answers: dict[str, Any]) -> None:
    text = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(answer, sort_keys=True)}"
        for name, answer in answers.items()
    )
    ANSWERS.write_text(f"{{\n{text}\n}}\n")


def slim(body: Any) -> Any:
    """Without what belongs to one implementation."""
    if isinstance(body, dict):
        return {name: slim(value) for name, value in body.items() if name not in OWN_KEYS}
    return [slim(each) for each in body] if isinstance(body, list) else body


def differences(java: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Steps that differ without a reason above."""
    found = {}
    for name, (status, body) in java.items():
        our_status, our_body = ours[name]
        if status != our_status and name not in OTHER_STATUS:
            found[name] = (status, our_status)
        elif status == our_status and name not in OTHER_WORDS and name not in OTHER_STATUS:
            wanted, had = _comparable(name, body), _comparable(name, our_body)
            if isinstance(wanted, dict) and isinstance(had, dict) and _has_settings(name):
                had = {key: had.get(key) for key in wanted}  # we have more settings
            if wanted != had:
                found[name] = (wanted, had)
    return found


def _has_settings(name: str) -> bool:
    return name.startswith(("validate", "settings of a"))


def _comparable(name: str, body: Any) -> Any:
    if not _has_settings(name) or ("configs" not in body and "name" not in body):
        return slim(body)
    # Java's worker gives the versions and the worker's converters as defaults.
    settings = body.get("configs", body)
    return {
        key: (*facts[:2], facts[3], bool(facts[5:] and facts[5]))
        for key, facts in settings.items()
        if not key.endswith(("converter", "plugin.version"))
    }
