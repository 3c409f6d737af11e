"""The boards and alert rules in docker/monitoring/, as what they ask of Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
_NAME = re.compile(r"\b(?:kafka|moldau|process)_[a-z0-9_]+\b(?=[\s{\[)]|$)")


def panels(board: str) -> list[dict[str, Any]]:
    """The panels of a board."""
    found: dict[str, Any] = json.loads((FOLDER / f"{board}.json").read_text(encoding="utf-8"))
    return list(found["panels"])


def queries(board: str, alerts: str) -> Iterator[str]:
    """Every expression of both files, with the variables of the board as Grafana fills them in."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield re.sub(r"\$(topic|job|connector)\b", ".*", target["expr"])
    rules = yaml.safe_load((FOLDER / f"{alerts}.yml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def series_in(query: str) -> set[str]:
    """The series that a query reads."""
    return set(_NAME.findall(query))


def series_of(board: str, alerts: str) -> set[str]:
    """The series that both files read."""
    return {name for query in queries(board, alerts) for name in series_in(query)}
