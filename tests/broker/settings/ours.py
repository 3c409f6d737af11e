"""Our answers to the questions that Kafka was asked, in the same form."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.broker.settings import (
    ConfigEntry,
    ResourceSettings,
    broker_settings,
    client_metrics_settings,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_resource,
    dynamic_layers,
    dynamic_refusals,
    group_conflicts,
    group_settings,
    topic_conflicts,
    topic_settings,
)
from moldau.config import BadSettings, GivenValue, Layer, Settings, Source, SourceKind
from tests.broker.settings.cases import where_of

Where = dict[str, dict[str, str]]


def file_layer(values: dict[str, str]) -> Layer:
    source = Source(SourceKind.FILE, "server.properties")
    return tuple(GivenValue(name, value, source) for name, value in values.items())


def broker(where: Where) -> Settings:
    settings = broker_settings(file_layer(where["file"]))
    if "all" not in where and "one" not in where:
        return settings
    return settings.overlaid(*dynamic_layers(where.get("all", {}), where.get("one", {})))


def accepts(question: str) -> bool:
    _, kind, where = where_of(question)
    try:
        return not _conflicts(kind, where)
    except BadSettings:
        return False


def _conflicts(kind: str, where: Where) -> Iterable[str]:
    own = where.get("own", {})
    match kind:
        case "broker":
            broker(where)
        case "topic":
            before = topic_settings("own", where.get("before", {}), broker(where))
            return topic_conflicts(topic_settings("own", own, broker(where)), before)
        case "group":
            return group_conflicts(group_settings("own", own, broker(where)))
        case "client-metrics":
            client_metrics_settings("own", own)
        case "all" | "one":
            return dynamic_refusals(where[kind], one_broker=kind == "one")
        case _:
            raise AssertionError(kind)
    return ()


def entries(question: str) -> list[str]:
    _, kind, where = where_of(question)
    return sorted(map(_text, _described(kind, where)))


def _described(kind: str, where: Where) -> Iterable[ConfigEntry]:
    own = where.get("own", {})
    match kind:
        case "broker":
            return describe_broker(broker(where))
        case "all":
            return describe_all_brokers(broker(where))
        case "client-metrics":
            return describe_client_metrics(client_metrics_settings("own", own))
    made: ResourceSettings = {"topic": topic_settings, "group": group_settings}[kind](
        "own", own, broker(where)
    )
    return describe_resource(made)


def _text(entry: ConfigEntry) -> str:
    fields = [
        entry.name,
        _shown(entry.value),
        str(entry.source),
        str(entry.kind),
        "read-only" if entry.is_read_only else "",
        "sensitive" if entry.is_sensitive else "",
        *(f"{each.name}={_shown(each.value)}@{each.source}" for each in entry.synonyms),
    ]
    return "|".join(fields)


def _shown(value: str | None) -> str:
    return "null" if value is None else value
