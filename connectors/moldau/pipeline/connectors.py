"""Check the connectors of a pipeline, and find the topics that they read and write.

Connect's own validation checks a config. A source names its topics in its config (`topic`, or
`topic.prefix` with table names), or in `writes` beside its `config`. If neither names them, or if a
transform may change the topic, the source counts as one that may write any topic. A sink may write
topics too: `sink.topic` of Spark's sink, those in `writes`, and the topic of its dead letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.config.file_problems import Problem, warning
from moldau.errors import MoldauError
from moldau.pipeline.pipeline import Connector
from moldau.pipeline.references import has_reference, provider_settings, references_in

if TYPE_CHECKING:
    from moldau.config.yaml_tree import Node

_TOPIC_CHANGING_TRANSFORMS: Final = (
    "RegexRouter",
    "TimestampRouter",
    "Python",
    "Expr",
    "EventRouter",
)
_TABLE_KEYS: Final = ("table.whitelist", "table.include.list")


def connector_of(
    name: str, config: Mapping[str, str], line: int, *, is_source: bool, writes: list[str] | None
) -> Connector:
    """Return a connector with the topics that it reads or writes.

    `writes` are the topics that the file names beside the config; None means that it names none."""
    full = {**config, "name": name}
    if not is_source:
        return _sink(Connector(name, line, False, full), writes)
    known = tuple(writes) if writes is not None else _written_topics(config)
    return Connector(name, line, True, full, writes=known or (), chooses_topics=known is None)


def _sink(sink: Connector, writes: list[str] | None) -> Connector:
    reads = _comma_separated(sink.config, "topics")
    pattern = sink.config.get("topics.regex") or None
    written = [] if writes is None else writes
    chooses_topics = False
    topic = sink.config.get("sink.topic", "")
    if writes is None and sink.config.get("sink.format") == "topic" and topic:
        # ${topic} is the topic that the query reads.
        written = [topic.replace("${topic}", each) for each in reads] or [topic]
        chooses_topics = any("${" in each for each in written)
    if sink.dead_letters is not None:
        written = [*written, sink.dead_letters]
    return replace(
        sink,
        reads=reads,
        pattern=pattern,
        writes=tuple(dict.fromkeys(each for each in written if "${" not in each)),
        chooses_topics=chooses_topics,
    )


def _written_topics(config: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the topics that a source's config names, or None if they cannot be known from it."""
    for alias in _comma_separated(config, "transforms"):
        kind = config.get(f"transforms.{alias}.type", "").rsplit(".", 1)[-1].partition("$")[0]
        if kind in _TOPIC_CHANGING_TRANSFORMS:
            return None
    topic, prefix = config.get("topic"), config.get("topic.prefix")
    if topic:
        return None if "${" in topic else (topic,)
    if prefix is None:
        return None
    if config.get("query"):
        return (prefix,)
    tables = [table for key in _TABLE_KEYS for table in _comma_separated(config, key)]
    if not tables or any(not re.fullmatch(r"[\w.\"`]+", each) for each in tables):
        return None
    return tuple(prefix + each.rsplit(".", 1)[-1].strip('"`') for each in tables)


def _comma_separated(config: Mapping[str, str], key: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in config.get(key, "").split(",") if part.strip())


def check_connector(
    connector: Connector, node: Node, worker_settings: Mapping[str, str]
) -> list[Problem]:
    """Validate a connector's config as a worker with these settings does, without any server.

    `node` is the connector's part of the file, for the lines of problems."""
    from moldau.connect.herder.operations import type_of, validated

    lines = node.entries()
    inner = lines.get("config")
    lines = lines if inner is None or not inner.entries() else inner.entries()

    def line_of(key: str) -> int:
        return lines[key].line if key in lines else connector.line

    where = f"{'sources' if connector.is_source else 'sinks'}.{connector.name}"
    kind = type_of(connector.config)
    if kind != "unknown" and (kind == "source") is not connector.is_source:
        right = "sources" if kind == "source" else "sinks"
        text = f"{where}: {connector.short_class} is a {kind}: put it under {right}"
        return [Problem(line_of("connector.class"), text)]
    worker = {**worker_settings, **provider_settings(references_in(connector.config.values()))}
    config = dict(connector.config)
    problems: list[Problem] = []
    for _ in range(len(config) + 1):
        try:
            infos = validated(config, worker, asks=False)
            break
        except MoldauError as error:
            unread = next((key for key in config if str(error).startswith(f"{key}: ")), None)
            if unread is None:
                return [*problems, Problem(line_of("connector.class"), f"{where}: {error}")]
            # A reference that cannot be read here may be readable where the pipeline runs.
            reason = str(error).removeprefix(f"{unread}: ").partition("; ")[0]
            problems.append(warning(line_of(unread), f"{where}: {unread}: {reason}"))
            del config[unread]
    left_out = set(connector.config) - set(config)
    for each in dict.fromkeys((info.key, info.text) for info in infos.errors):
        if each[0] not in left_out and each[0] != "name":
            problems.append(Problem(line_of(each[0]), f"{where}: {_on_one_line(each[1])}"))
    problems += [warning(line_of(each.key), f"{where}: {each.text}") for each in infos.warnings]
    return problems


def check_worker(settings: Mapping[str, str], root: Node) -> list[Problem]:
    """Check the settings of the worker that `run` starts. `root` has their lines."""
    from moldau.connect.installed.plugins import catalogue
    from moldau.connect.plugins import PluginKind, PluginNotFound
    from moldau.connect.worker.settings import unknown_settings

    def line_of(key: str) -> int:
        return root.line_at(("worker", "settings", key))

    where, problems = "worker.settings", []
    for each in unknown_settings(settings):
        problems.append(warning(line_of(each.key), f"{where}: {each.text}"))
    for key, why in unresolved(settings).items():
        problems.append(warning(line_of(key), f"{where}.{key}: {why.partition('; ')[0]}"))
    for key, kind in (
        ("key.converter", PluginKind.CONVERTER),
        ("value.converter", PluginKind.CONVERTER),
        ("header.converter", PluginKind.HEADER_CONVERTER),
    ):
        name = settings.get(key, "").strip()
        try:
            if name and not has_reference(name):
                catalogue().find(kind, name)
        except PluginNotFound as error:
            problems.append(Problem(line_of(key), f"{where}.{key}: {_on_one_line(str(error))}"))
    return problems


def _on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def resolved_for_worker(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a worker with those references resolved that it does not resolve.

    It resolves those of converters, for each task, and shows none of them."""
    from moldau.connect.installed.plugins import resolved

    own = {
        name: text
        for name, text in settings.items()
        if has_reference(text) and ".converter" not in name
    }
    return {**settings, **resolved(own, provider_settings(references_in(own.values())))[0]}


def unresolved(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings whose references cannot be read on this machine: name -> reason."""
    from moldau.connect.installed.plugins import resolved

    found = {}
    for name, text in config.items():
        if has_reference(text):
            try:
                resolved({name: text}, provider_settings(references_in([text])))
            except MoldauError as error:
                found[name] = str(error).removeprefix(f"{name}: ")
    return found
