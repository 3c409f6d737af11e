"""Define the sections of a pipeline file, each as a pydantic model, and read them.

`read_sections` keeps every valid part of the file. A wrong part becomes a problem with its line,
and is left out. So one pass finds all mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from moldau.config.file_problems import Problem, nearest
from moldau.config.yaml_tree import Node

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$"
_NAME: Final = re.compile(NAME_PATTERN)


class Section(BaseModel):
    """A part of the file. A key that its model does not have is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TopicSection(Section):
    """A topic. `run` creates it if it does not exist, unless it is external."""

    partitions: int | None = Field(None, ge=1, le=100_000)
    replication: int | None = Field(None, ge=1, le=32_767)
    config: dict[str, str] = {}
    external: bool = False
    schema_: str | None = Field(None, alias="schema")  # pydantic has a method `schema`


class ConnectorSection(Section):
    """A connector's config, as Kafka Connect takes it, and the topics that it writes."""

    config: dict[str, str]
    writes: list[str] | None = None


class TopologySection(Section):
    """A Streams app as MODULE:APP, its settings, and how many processes run it."""

    app: str = Field(pattern=r"^[^:\s]+:[^:\s]+$")
    engine: Literal["embedded", "spark"] = "embedded"
    workers: int = Field(1, ge=1, le=1000)
    settings: dict[str, str] = {}


class JobSection(Section):
    """A PySpark script, or a folder of Spark Declarative Pipelines, with its topics.

    It has the settings of Spark that the connectors have."""

    script: str | None = None
    folder: str | None = None
    reads: list[str] = []
    writes: list[str] = []
    group: str | None = None
    every: int | None = Field(None, ge=1, le=86_400)
    arguments: list[str] = []
    config: dict[str, str] = {}


class ProcessSection(Section):
    """Settings of the broker or of the Connect worker that `run` starts."""

    settings: dict[str, str] = {}


class PipelineSection(Section):
    """A whole pipeline file."""

    pipeline: str = Field(pattern=NAME_PATTERN)
    variables: dict[str, str] = {}
    broker: ProcessSection = ProcessSection()
    worker: ProcessSection = ProcessSection()
    topics: dict[str, TopicSection] = {}
    sources: dict[str, ConnectorSection] = {}
    topologies: dict[str, TopologySection] = {}
    jobs: dict[str, JobSection] = {}
    sinks: dict[str, ConnectorSection] = {}


_ENTRIES: Final[Mapping[str, type[Section]]] = {
    "topics": TopicSection,
    "sources": ConnectorSection,
    "topologies": TopologySection,
    "jobs": JobSection,
    "sinks": ConnectorSection,
}
_SINGLE: Final[Mapping[str, type[Section]]] = {"broker": ProcessSection, "worker": ProcessSection}
_TEXTS: Final = ("config", "settings", "variables")


def read_sections(root: Node) -> tuple[PipelineSection, list[Problem]]:
    """Return the valid parts of the file, and the problems."""
    problems: list[Problem] = []
    plain = _normalized(root, problems)
    while True:
        try:
            return PipelineSection.model_validate(plain), problems
        except ValidationError as error:
            for each in error.errors(include_url=False):
                location = tuple(part for part in each["loc"] if part != "[key]")
                problems.append(Problem(root.line_at(location), _message(location, dict(each))))
                _remove_wrong_part(plain, location, each["type"])


def _normalized(root: Node, problems: list[Problem]) -> dict[str, Any]:
    """Return the file as plain data in one form.

    An empty section becomes an empty mapping. A list in a config becomes a comma-separated text. A
    connector's bare config becomes an entry with the key `config`."""
    plain: dict[str, Any] = root.plain()
    for name in (*_ENTRIES, *_SINGLE, "variables"):
        if name in plain and plain[name] is None:
            plain[name] = {}
    for section in _ENTRIES:
        entries = plain.get(section)
        if not isinstance(entries, dict):
            continue
        for name in list(entries):
            if not _NAME.fullmatch(name):
                text = f"{section}: {name} is not a name: use letters, digits, '.', '_' and '-'"
                problems.append(Problem(root.line_at((section, name)), text))
                del entries[name]
            elif entries[name] is None:
                entries[name] = {}
            elif section in ("sources", "sinks") and _is_flat(entries[name]):
                entries[name] = {"config": entries[name]}
    _join_lists(plain)
    return plain


def _is_flat(entry: Any) -> bool:
    """Whether this is a connector's config itself, and not an entry with the key `config`."""
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


def _message(location: tuple[Any, ...], error: Mapping[str, Any]) -> str:
    where = ".".join(map(str, location))
    match error["type"]:
        case "extra_forbidden":
            parent = ".".join(map(str, location[:-1]))
            fields = _model_at(location[:-1]).model_fields
            known = [each.alias or name for name, each in fields.items()]
            what = f"{parent} has no key {location[-1]}" if parent else f"no section {location[-1]}"
            return f"{what}{nearest(str(location[-1]), known)} (known: {', '.join(known)})"
        case "missing":
            if location == ("pipeline",):
                return "the pipeline has no name: add a line such as `pipeline: orders`"
            return f"{where} is missing: add it"
        case "string_pattern_mismatch":
            if location[-1] == "app":
                return f"{where} must be MODULE:APP, such as word_count:app"
            return f"{where} is not a name: use letters, digits, '.', '_' and '-'"
        case "string_type":
            return f"{where} must be a text"
        case "dict_type" | "model_type":
            return f"{where} must be a mapping of names to values"
    message = str(error["msg"])
    return f"{where}: {message[:1].lower()}{message[1:]}"


def _model_at(location: tuple[Any, ...]) -> type[Section]:
    if not location:
        return PipelineSection
    return _SINGLE.get(str(location[0])) or _ENTRIES.get(str(location[0]), PipelineSection)


def _remove_wrong_part(plain: dict[str, Any], location: tuple[Any, ...], kind: str) -> None:
    """Remove the wrong part. Remove the whole entry if a key of it is missing."""
    if kind == "missing" and location == ("pipeline",):
        plain["pipeline"] = "pipeline"
        return
    if location == ("pipeline",):
        plain["pipeline"] = "pipeline"
        return
    if kind == "missing" or location[-1] == "app":
        location = location[:-1]
    at: Any = plain
    for part in location[:-1]:
        if not isinstance(at, dict) or part not in at:
            return
        at = at[part]
    if isinstance(at, dict):
        at.pop(location[-1], None)
    elif isinstance(at, list):
        at.clear()
