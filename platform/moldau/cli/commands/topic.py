"""`moldau topic`: list, describe, create, delete, alter and trim topics."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import assignments, named_values, opened_admin
from moldau.cli.commands.topic_alter import add_alter, alter
from moldau.cli.commands.topic_delete import add_delete, delete
from moldau.cli.commands.topic_patterns import NAME_OR_PATTERN, named_topics
from moldau.cli.commands.topic_trim import add_trim, trim
from moldau.cli.names import topic_name
from moldau.cli.numbers import INT16_MAX, INT32_MAX, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.patterns import matches
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client import Admin, CreatedTopic, Partition, Topic


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="PATTERN", help="such as 'orders-*'")
    parser.add_argument("--internal", action="store_true", help="also those of the brokers")


def _list(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        found = admin.run(lambda client: client.list_topics(internal=True))
    topics = [each for each in found if _is_listed(arguments, each)]
    if arguments.json:
        write_json(context.out, [_summary(topic) for topic in topics])
        return Exit.DONE
    rows = [
        (each.name, str(len(each.partitions)), str(_replication(each)), _health(each))
        for each in topics
    ]
    write_table(context.out, ("TOPIC", "PARTITIONS", "REPLICAS", "HEALTH"), rows)
    return Exit.DONE


def _is_listed(arguments: Namespace, topic: Topic) -> bool:
    """Whether to list the topic. An internal one is listed by --internal, or by its full name."""
    is_shown = arguments.internal or not topic.is_internal or topic.name in arguments.topics
    return is_shown and matches(topic.name, arguments.topics)


def _replication(topic: Topic) -> int:
    return max((len(each.replicas) for each in topic.partitions), default=0)


def _health(topic: Topic) -> str:
    leaderless = sum(each.leader < 0 for each in topic.partitions)
    lagging = sum(len(each.isr) < len(each.replicas) for each in topic.partitions)
    if leaderless:
        return f"{leaderless} without a leader"
    return f"{lagging} under-replicated" if lagging else "ok"


def _summary(topic: Topic) -> dict[str, Any]:
    from moldau.ids import format_uuid

    return {
        "name": topic.name,
        "id": format_uuid(topic.topic_id) if topic.has_id else None,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": _replication(topic),
    }


def _add_describe(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC", type=topic_name, help=NAME_OR_PATTERN)


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.errors.codes import KafkaError

    with opened_admin(arguments, context) as admin:
        names = admin.run(lambda client: named_topics(client, arguments.names))
        found = admin.run(lambda client: client.describe_topics(names)).values()
        topics = [each for each in found if not isinstance(each, KafkaError)]
        errors = admin.naming_nearest(each for each in found if isinstance(each, KafkaError))
        configs = admin.run(lambda client: _own_configs(client, topics))
    if arguments.json:
        described = [
            {
                **_summary(topic),
                "configs": configs[topic.name],
                "partitions": [_partition(each) for each in topic.partitions],
            }
            for topic in topics
        ]
        write_json(context.out, described)
    else:
        for topic in topics:
            _write_topic(context, topic, configs[topic.name])
    write_lines(context.err, (f"moldau: {error}" for error in errors))
    return Exit.FAILED if errors else Exit.DONE


async def _own_configs(client: Admin, topics: list[Topic]) -> dict[str, dict[str, str | None]]:
    """Return the settings that are set on each topic itself."""
    from moldau.client import ConfigSource, Resource, ResourceType

    found = {}
    for topic in topics:
        entries = await client.describe_configs(Resource(ResourceType.TOPIC, topic.name))
        own = (each for each in entries if each.source is ConfigSource.TOPIC)
        found[topic.name] = {each.name: each.value for each in own}
    return found


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "leader": partition.leader if partition.leader >= 0 else None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline": list(partition.offline),
    }


def _write_topic(context: Context, topic: Topic, configs: dict[str, str | None]) -> None:
    summary = _summary(topic)
    facts = ", ".join(f"{name}={value}" for name, value in configs.items()) or "all defaults"
    context.out.write(f"{topic.name}  id {summary['id'] or 'none'}  settings: {facts}\n")
    rows = [
        (
            str(each.index),
            str(each.leader) if each.leader >= 0 else f"none ({each.error.name})",
            str(each.leader_epoch),
            _brokers(each.replicas),
            _brokers(each.isr),
            _brokers(each.offline) or "-",
        )
        for each in topic.partitions
    ]
    header = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "OFFLINE")
    write_table(context.out, header, rows)


def _brokers(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _add_create(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC", type=topic_name)
    count, replicas, default = (
        whole(1, INT32_MAX),
        whole(1, INT16_MAX),
        "else the cluster's default",
    )
    parser.add_argument("-p", "--partitions", type=count, default=-1, help=default)
    parser.add_argument("-r", "--replicas", type=replicas, default=-1, help=default)
    parser.add_argument(
        "-c",
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the topic, by Kafka's name; may be repeated",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="fine if it exists already")


def _create(arguments: Namespace, context: Context) -> int:
    from moldau.client import NewTopic
    from moldau.errors.codes import ErrorCode, KafkaError

    configs = assignments(arguments.config)
    wanted = [
        NewTopic(name, arguments.partitions, arguments.replicas, configs)
        for name in dict.fromkeys(arguments.names)
    ]
    with _telling_whose_settings(arguments), opened_admin(arguments, context) as admin:
        results = admin.run(lambda client: client.create_topics(wanted))
    documents, errors = [], []
    for name, made in results.items():
        if not isinstance(made, KafkaError):
            documents.append(_created(made))
            text = f"partitions {made.partitions}, replicas {made.replication_factor}"
            _tell(context, arguments, f"created {name}: {text}")
        elif arguments.if_not_exists and made.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            documents.append({"created": False, "name": name})
            _tell(context, arguments, f"{name} exists already")
        else:
            errors.append(made)
    if arguments.json and documents:
        write_json(context.out, documents if len(wanted) > 1 else documents[0])
    write_lines(context.err, (f"moldau: {error}" for error in errors))
    return Exit.FAILED if errors else Exit.DONE


def _created(made: CreatedTopic) -> dict[str, Any]:
    from moldau.ids import format_uuid

    return {
        "created": True,
        "name": made.name,
        "id": format_uuid(made.topic_id),
        "partitions": made.partitions,
        "replication_factor": made.replication_factor,
    }


@contextmanager
def _telling_whose_settings(arguments: Namespace) -> Iterator[None]:
    """Add a hint to an error about `--set` that `--config` is for settings of the topic."""
    from moldau.config import BadSettings

    try:
        yield
    except BadSettings as error:
        unknown = {each.name for each in error.problems if each.reason == "unknown setting"}
        if unknown.isdisjoint(name for name, _ in named_values(arguments.client_settings)):
            raise
        raise UsageError(f"{error}\n--set is for the client; --config is for the topic") from error


def _tell(context: Context, arguments: Namespace, text: str) -> None:
    if not arguments.json:
        context.out.write(f"{text}\n")


command = ActionCommand(
    SUMMARIES["topic"],
    (
        Action("list", "the topics there are", _add_list, _list),
        Action("describe", "partitions, leaders, replicas and settings", _add_describe, _describe),
        Action("create", "make a topic", _add_create, _create),
        Action("delete", "delete topics and all their records", add_delete, delete),
        Action("alter", "more partitions, other settings", add_alter, alter),
        Action("trim", "delete records from the front", add_trim, trim),
    ),
)
