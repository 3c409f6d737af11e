"""Check the connectors of a pipeline, and find the topics that they read and write.

Connect's own validation checks a config. A source names its topics in its config (`topic`, or
`topic.prefix` with table names), or in `writes` beside its `config`. If neither names them, or if a
transform may change the topic, the source counts as one that may write any topic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from moldau.errors import MoldauError
from moldau.pipeline.pipeline import Connector
from moldau.pipeline.problems import Problem, warning
from moldau.pipeline.references import has_reference, provider_settings, references_in

if TYPE_CHECKING:
    from moldau.pipeline.document import Node

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

    `writes` are the topics that the file names for a source; None means that it names none."""
    full = {**config, "name": name}
    if not is_source:
        pattern = config.get("topics.regex") or None
        return Connector(
            name, line, False, full, reads=_comma_separated(config, "topics"), pattern=pattern
        )
    known = tuple(writes) if writes is not None else _written_topics(config)
    return Connector(name, line, True, full, writes=known or (), chooses_topics=known is None)


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


def _on_one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def unresolved(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings whose references cannot be read on this machine: name -> reason."""
    from moldau.connect.worker.plugins import resolved

    found = {}
    for name, text in config.items():
        if has_reference(text):
            try:
                resolved({name: text}, provider_settings(references_in([text])))
            except MoldauError as error:
                found[name] = str(error).removeprefix(f"{name}: ")
    return found
