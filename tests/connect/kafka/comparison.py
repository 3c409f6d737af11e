"""When two answers say the same: JSON by its values, errors by kind and not by their words."""

from __future__ import annotations

import base64
import json
from typing import Any

from moldau.connect.java.text import to_single

Answer = dict[str, Any]


def same(question: Answer, theirs: Answer, ours: Answer) -> bool:
    """Whether ours answers as Kafka does."""
    return bool(_plain(question, theirs) == _plain(question, ours))


def _plain(question: Answer, answer: Answer) -> Any:
    for kind in ("refused", "failed"):
        if kind in answer:
            return kind
    if question["ask"] == "write" and question["class"].endswith("JsonConverter"):
        text = answer["bytes"]
        return None if text is None else json.loads(base64.b64decode(text))
    return _unordered(answer)


def _unordered(value: Any) -> Any:
    """Maps of Java have no order."""
    if isinstance(value, dict):
        if set(value) == {"$map"}:
            pairs = [[_unordered(key), _unordered(item)] for key, item in value["$map"]]
            return {"$map": sorted(pairs, key=json.dumps)}
        if set(value) == {"$float"}:
            return {"$float": _number(value["$float"])}
        return {name: _unordered(item) for name, item in value.items()}
    return [_unordered(item) for item in value] if isinstance(value, list) else value


def _number(text: str) -> str:
    """Java 17 does not always write the shortest digits of a float (JDK-4511638)."""
    digits = text.partition("E")[0].strip("-").replace(".", "").strip("0")
    number = float(text)
    return repr(to_single(number) if len(digits) <= 9 else number)
