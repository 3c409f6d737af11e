"""The sections of a pipeline file, a pydantic model each.

`read_sections` takes whatever is right in the file: a wrong part becomes a problem with its line
and is left out, so that one pass finds everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from moldau.pipeline.document import Node
from moldau.pipeline.problems import Problem, nearest

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
_NAME: Final = re.compile(NAME_PATTERN)


class Section(BaseModel):
    """Any part of the file: what it does not name is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSection(Section):
    """A topic: made if it does not exist, unless it is external."""

    partitions: int | None = Field(None, ge=1, le=100_000)
    replication: int | None = Field(None, ge=1, le=32_767)
    config: dict[str, str] = {}
    external: bool = False


class ConnectorSection(Section):
    """A connector's config, as Kafka Connect takes it, and the topics of a source."""

    config: dict[str, str]
    writes: list[str] | None = None


class TopologySection(Section):
    """A Streams app as MODULE:APP, its settings, and how many processes run it."""

    app: str = Field(pattern=r"^[^:\s]+:[^:\s]+$")
    workers: int = Field(1, ge=1, le=1000)
    settings: dict[str, str] = {}


class ProcessSection(Section):
    """Settings of the broker or of the Connect worker that `run` starts."""

    settings: dict[str, str] = {}


class PipelineSection(Section):
    """The whole file."""

    pipeline: str = Field(pattern=NAME_PATTERN)
    variables: dict[str, str] = {}
    broker: ProcessSection = ProcessSection()
    worker: ProcessSection = ProcessSection()
    topics: dict[str, TopicSection] = {}
    sources: dict[str, ConnectorSection] = {}
    topologies: dict[str, TopologySection] = {}
    sinks: dict[str, ConnectorSection] = {}


_ENTRIES: Final[Mapping[str, type[Section]]] = {
    "topics": TopicSection,
    "sources": ConnectorSection,
    "topologies": TopologySection,
    "sinks": ConnectorSection,
}
_SINGLE: Final[Mapping[str, type[Section]]] = {"broker": ProcessSection, "worker": ProcessSection}
_TEXTS: Final = ("config", "settings", "variables")


def read_sections(root: Node) -> tuple[PipelineSection, list[Problem]]:
    """What is right in the file, and what is not."""
    problems: list[Problem] = []
    plain = _prepared(root, problems)
    while True:
        try:
            return PipelineSection.model_validate(plain), problems
        except ValidationError as error:
            for each in error.errors(include_url=False):
                place = tuple(part for part in each["loc"] if part != "[key]")
                problems.append(Problem(root.line_at(place), _told(place, dict(each))))
                _leave_out(plain, place, each["type"])


def _prepared(root: Node, problems: list[Problem]) -> dict[str, Any]:
    """Plain data: empty sections are empty mappings, lists in configs are comma-separated texts."""
    plain: dict[str, Any] = root.plain()
    for name in (*_ENTRIES, *_SINGLE, "variables"):
        if name in plain and plain[name] is None:
            plain[name] = {}
    for section in _ENTRIES:
        entries = plain.get(section)
        if not isinstance(entries, dict):
            continue
        for name in list(entries):
            if not _NAME.match(name):
                text = f"{section}: {name} is no name: letters, digits, '.', '_' and '-'"
                problems.append(Problem(root.line_at((section, name)), text))
                del entries[name]
            elif entries[name] is None:
                entries[name] = {}
            elif section in ("sources", "sinks") and _is_flat(entries[name]):
                entries[name] = {"config": entries[name]}
    _join_lists(plain)
    return plain


def _is_flat(entry: Any) -> bool:
    """Whether it is a connector's config itself."""
    return isinstance(entry, dict) and not isinstance(entry.get("config"), dict)


def _join_lists(plain: Any) -> None:
    if not isinstance(plain, dict):
        return
    for name, value in plain.items():
        if name in _TEXTS and isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, list) and all(isinstance(each, str) for each in item):
                    value[key] = ",".join(item)
                elif item is None:
                    value[key] = ""
        else:
            _join_lists(value)


def _told(place: tuple[Any, ...], error: Mapping[str, Any]) -> str:
    where = ".".join(map(str, place))
    match error["type"]:
        case "extra_forbidden":
            parent = ".".join(map(str, place[:-1]))
            known = list(_model_at(place[:-1]).model_fields)
            what = f"{parent} has no key {place[-1]}" if parent else f"no section {place[-1]}"
            return f"{what}{nearest(str(place[-1]), known)} (known: {', '.join(known)})"
        case "missing":
            if place == ("pipeline",):
                return "the pipeline has no name: add a line such as `pipeline: orders`"
            return f"{where} is missing"
        case "string_pattern_mismatch":
            if place[-1] == "app":
                return f"{where} must be MODULE:APP, such as word_count:app"
            return f"{where} is no name: letters, digits, '.', '_' and '-'"
        case "string_type":
            return f"{where} must be a text"
        case "dict_type" | "model_type":
            return f"{where} must be a mapping of names to values"
    message = str(error["msg"])
    return f"{where}: {message[:1].lower()}{message[1:]}"


def _model_at(place: tuple[Any, ...]) -> type[Section]:
    if not place:
        return PipelineSection
    return _SINGLE.get(str(place[0])) or _ENTRIES.get(str(place[0]), PipelineSection)


def _leave_out(plain: dict[str, Any], place: tuple[Any, ...], kind: str) -> None:
    """Without the wrong part; an entry that misses something is left out as a whole."""
    if kind == "missing" and place == ("pipeline",):
        plain["pipeline"] = "pipeline"
        return
    if place == ("pipeline",):
        plain["pipeline"] = "pipeline"
        return
    if kind == "missing" or place[-1] == "app":
        place = place[:-1]
    at: Any = plain
    for part in place[:-1]:
        if not isinstance(at, dict) or part not in at:
            return
        at = at[part]
    if isinstance(at, dict):
        at.pop(place[-1], None)
    elif isinstance(at, list):
        at.clear()
