"""Lay an app out on the cluster's topics for Spark, and make its repartition topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client import KafkaError, NewTopic
from moldau.client.sync import Admin, Producer
from moldau.errors.amounts import counted
from moldau.streams.plan.layout import Layout, laid_out
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import MissingTopics, TopologyError, UnfitTopic
from moldau.streams.worker import settings as rows
from moldau.streams.worker.settings import AppSettings

_OUTPUT_WAIT_MS = "3000"


def prepare(plan: Plan, settings: AppSettings, *, has_changelogs: bool = False) -> Layout:
    """Return the layout, with all topics there. Raise TopologyError if the app cannot run."""
    with Admin(settings.of("admin")) as admin:
        there = _counts(admin)
        layout = laid_out(plan, there) if has_changelogs else _laid_out(plan, there)
        _require(plan.app, settings, [name for name in layout.outputs if name not in there])
        own = {topic.name for topic in plan.repartitions}
        if has_changelogs:
            own |= plan.changelogs().keys()
        for each in layout.internal:
            if each.name in own and each.name not in there:
                copies = settings.own[rows.replication_factor]
                admin.create_topic(
                    NewTopic(each.name, each.partitions, copies, configs=dict(each.configs))
                )
    return layout


def _laid_out(plan: Plan, there: Mapping[str, int]) -> Layout:
    try:
        return laid_out(plan, there)
    except UnfitTopic as error:
        raise TopologyError(
            f"app={plan.app}: the topic {error.topic} has "
            f"{counted(error.partitions, 'partition')} and the "
            f"app now needs {error.needed}: an input has another number of partitions than before; "
            f"stop the app, delete {error.topic}, and start it with a new --checkpoint, which "
            "begins without state and reads the inputs as auto.offset.reset says"
        ) from None


def _counts(admin: Admin) -> dict[str, int]:
    topics: Any = admin.list_topics()
    return {topic.name: len(topic.partitions) for topic in topics}


def _require(app: str, settings: AppSettings, missing: list[str]) -> None:
    """Let a broker that creates topics for producers do so. Raise MissingTopics if it does not."""
    if not missing:
        return
    with Producer({**settings.of("producer"), "max.block.ms": _OUTPUT_WAIT_MS}) as producer:
        for name in missing:
            try:
                producer.partitions(name)
            except KafkaError:
                raise MissingTopics(app, "output", missing) from None
