"""`moldau streams topology|explain|draw`: an app as text or as a picture, without running it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.output import write_json, write_lines
from moldau.client import KafkaError, TopicPartition
from moldau.streams.commands.given_app import load_app
from moldau.streams.plan.misplaced import FIRST, KeySample
from moldau.streams.plan.patterns import patterns_of
from moldau.streams.plan.placement import placed_inputs
from moldau.streams.plan.plan import Plan

if TYPE_CHECKING:
    from moldau.client.sync import Consumer

_FIND_S: Final = 5.0
_POLLS: Final = 10
_POLL_S: Final = 0.5
_TOPIC_GIVEN: Final = ("group.", "enable.auto.commit", "auto.offset.reset")


def show_app(arguments: Namespace, context: Context) -> int:
    """Print the text, the picture as SVG, or with --json the plan as data."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.plan.description import description
    from moldau.streams.plan.drawing import draw_svg
    from moldau.streams.plan.text import explain_text, topology_text

    app = load_app(arguments.app, absolute_path("."))
    plan = app.plan()
    if arguments.action == "explain" and arguments.engine == "spark":
        from moldau.cli.commands.cluster_connection import assignments
        from moldau.streams.spark.deployment import deployment_problems, is_deployment
        from moldau.streams.spark.limits import explain_spark, spark_description
        from moldau.streams.worker.settings import EXACTLY_ONCE

        if arguments.json:
            found = spark_description(plan, _counts(arguments.partitions))
            words = arguments.client_settings
            own = [each for each in words if is_deployment(each.partition("=")[0])]
            rest = [each for each in words if each not in own]
            problems = deployment_problems(assignments(own))
            wrong = [{"name": name, "text": text} for name, text in problems.items()]
            keys = _misplaced(plan, arguments, context, rest)
            facts = {"settings": [*wrong, *_problems(rest)], "misplaced": keys}
            write_json(context.out, {**found, **facts})
            return Exit.DONE
        guarantee = getattr(app, "guarantee", EXACTLY_ONCE)
        text = explain_spark(plan, is_exactly_once=guarantee == EXACTLY_ONCE)
    elif arguments.action == "explain":
        counts = _counts(arguments.partitions)
        if arguments.json:
            found = description(plan, counts)
            words = arguments.client_settings
            keys = _misplaced(plan, arguments, context, words)
            write_json(context.out, {**found, "settings": _problems(words), "misplaced": keys})
            return Exit.DONE
        text = explain_text(plan, counts)
    else:
        text = topology_text(plan) if arguments.action == "topology" else draw_svg(plan)
    print(text.rstrip("\n"), file=context.out)
    if arguments.action == "explain":
        words = arguments.client_settings
        write_lines(context.out, _misplaced(plan, arguments, context, words))
    return Exit.DONE


def _misplaced(
    plan: Plan, arguments: Namespace, context: Context, words: Sequence[str]
) -> list[str]:
    """Return what is wrong with the keys of the inputs, if a cluster is given. `words` are settings
    of the app, as NAME=VALUE."""
    if arguments.bootstrap is None:
        return []
    from moldau.cli.commands.cluster_connection import client_settings
    from moldau.streams.running import checked

    given = client_settings(Namespace(**{**vars(arguments), "client_settings": words}), context)
    return misplaced_on_cluster(plan, checked(given).of("consumer"))


def _problems(words: list[str]) -> list[dict[str, str]]:
    """Return what is wrong with settings that were given as NAME=VALUE."""
    from moldau.cli.commands.cluster_connection import assignments
    from moldau.client.base.given import resolve
    from moldau.client.settings.rows import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
    from moldau.config import BadSettings
    from moldau.streams.running import checked

    found: dict[str, str] = {}

    def collect(check: Callable[[], object]) -> None:
        try:
            check()
        except BadSettings as error:
            found.update({each.name: str(each) for each in error.problems})

    given = {"bootstrap.servers": "localhost:9092", **assignments(words)}
    collect(lambda: checked(given))
    if not found:
        clients = checked(given).clients
        consumer = {"group.id": "app", **clients["consumer"]}
        collect(lambda: resolve(CONSUMER_SETTINGS, consumer, {}))
        collect(lambda: resolve(PRODUCER_SETTINGS, clients["producer"], {}))
        collect(lambda: resolve(ADMIN_SETTINGS, clients["admin"], {}))
    return [{"name": name, "text": text} for name, text in found.items()]


def _counts(words: list[str]) -> dict[str, int]:
    """Return the partition counts of topics that were given as TOPIC=N."""
    found = {}
    for word in words:
        topic, _, count = word.rpartition("=")
        if not topic or not count.isdecimal() or int(count) < 1:
            raise UsageError(f"--partitions takes TOPIC=N, not {word}")
        found[topic] = int(count)
    return found


def misplaced_on_cluster(plan: Plan, settings: Mapping[str, str]) -> list[str]:
    """Return a line for each input with a misplaced key, and one for what cannot be looked at.

    `settings` are those of a consumer."""
    from moldau.client.sync import Consumer

    placed = placed_inputs(plan)
    topics = sorted(placed.keys() - patterns_of(plan))
    given = {name: text for name, text in settings.items() if not name.startswith(_TOPIC_GIVEN)}
    found: list[str] = []
    if not topics:
        return found
    try:
        with Consumer({**given, "auto.offset.reset": "earliest"}) as consumer:
            there = {
                each.name: [TopicPartition(each.name, part.index) for part in each.partitions]
                for each in consumer.list_topics(timeout_s=_FIND_S)
                if each.name in topics
            }
            counts = {name: len(parts) for name, parts in there.items()}
            sample = KeySample(placed, counts)
            partitions = [where for name in topics for where in there.get(name, ())]
            for where, keys in _last_keys(consumer, partitions).items():
                if (one := sample.look(where.topic, where.partition, keys)) is not None:
                    found.append(str(one))
    except KafkaError as error:
        found.append(f"the keys of {', '.join(topics)} were not looked at: {error}")
    return found


def _last_keys(
    consumer: Consumer[bytes, bytes], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[bytes | None]]:
    """Return the keys of the last records of each partition, as far as they come in time."""
    wanted = list(partitions)
    keys: dict[TopicPartition, list[bytes | None]] = {where: [] for where in wanted}
    if not wanted:
        return keys
    begins, ends = consumer.beginning_offsets(wanted), consumer.end_offsets(wanted)
    consumer.assign(wanted)
    for where in wanted:
        consumer.seek(where, max(begins[where], ends[where] - FIRST))
    for _ in range(_POLLS):
        if all((consumer.position(where) or 0) >= ends[where] for where in wanted):
            break
        for part in consumer.poll(_POLL_S):
            keys[TopicPartition(part.topic, part.partition)] += [r.key for r in part.records]
    return keys
