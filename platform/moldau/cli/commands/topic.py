"""`moldau topic`: list, describe, create, delete, alter and trim topics."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import assignments, opened_admin
from moldau.cli.output import write_json, write_table

if TYPE_CHECKING:
    from moldau.client import Admin, Partition, Topic


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("--internal", action="store_true", help="also those of the brokers")


def _list(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        topics = admin.run(lambda client: client.list_topics(internal=arguments.internal))
    if arguments.json:
        write_json(context.out, [_summary(topic) for topic in topics])
        return Exit.DONE
    rows = [
        (each.name, str(len(each.partitions)), str(_replication(each)), _health(each))
        for each in topics
    ]
    write_table(context.out, ("TOPIC", "PARTITIONS", "REPLICAS", "HEALTH"), rows)
    return Exit.DONE


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
    parser.add_argument("names", nargs="+", metavar="TOPIC")


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.errors.codes import KafkaError

    with opened_admin(arguments, context) as admin:
        found = admin.run(lambda client: client.describe_topics(arguments.names))
        topics = []
        for each in found.values():
            if isinstance(each, KafkaError):
                raise each
            topics.append(each)
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
        return Exit.DONE
    for topic in topics:
        _write_topic(context, topic, configs[topic.name])
    return Exit.DONE


async def _own_configs(client: Admin, topics: list[Topic]) -> dict[str, dict[str, str | None]]:
    """The settings that were given to each topic itself."""
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
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument("--partitions", type=int, default=-1, help="else the cluster's default")
    parser.add_argument("--replicas", type=int, default=-1, help="else the cluster's default")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--if-not-exists", action="store_true", help="fine if it exists already")


def _create(arguments: Namespace, context: Context) -> int:
    from moldau.client import NewTopic
    from moldau.errors.codes import ErrorCode, KafkaError
    from moldau.ids import format_uuid

    configs = assignments(arguments.config)
    topic = NewTopic(arguments.name, arguments.partitions, arguments.replicas, configs)
    with opened_admin(arguments, context) as admin:
        try:
            made = admin.run(lambda client: client.create_topic(topic))
        except KafkaError as error:
            exists = error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            if not (arguments.if_not_exists and exists):
                raise
            _tell(context, arguments, f"{topic.name} exists already", {"created": False})
            return Exit.DONE
    facts = {
        "created": True,
        "name": made.name,
        "id": format_uuid(made.topic_id),
        "partitions": made.partitions,
        "replication_factor": made.replication_factor,
    }
    text = f"created {made.name}: partitions {made.partitions}, replicas {made.replication_factor}"
    _tell(context, arguments, text, facts)
    return Exit.DONE


def _tell(context: Context, arguments: Namespace, text: str, facts: dict[str, Any]) -> None:
    if arguments.json:
        write_json(context.out, facts)
    else:
        context.out.write(f"{text}\n")


def _add_delete(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")


def _delete(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        results = admin.run(lambda client: client.delete_topics(arguments.names))
    failed = {name: error for name, error in results.items() if error is not None}
    deleted = [name for name in results if name not in failed]
    if arguments.json:
        errors = {name: str(error) for name, error in failed.items()}
        write_json(context.out, {"deleted": deleted, "failed": errors})
    else:
        context.out.writelines(f"deleted {name}\n" for name in deleted)
    for error in failed.values():
        context.err.write(f"moldau: {error}\n")
    return Exit.FAILED if failed else Exit.DONE


def _add_alter(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument("--partitions", type=int, help="how many it shall have in all")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--unset", action="append", default=[], metavar="NAME")


def _alter(arguments: Namespace, context: Context) -> int:
    from moldau.client import Resource, ResourceType

    if arguments.partitions is None and not arguments.config and not arguments.unset:
        raise UsageError("nothing to alter: give --partitions, --config or --unset")
    set_to = assignments(arguments.config)
    with opened_admin(arguments, context) as admin:
        if set_to or arguments.unset:
            resource = Resource(ResourceType.TOPIC, arguments.name)
            unset = arguments.unset
            admin.run(lambda client: client.alter_configs(resource, set_to=set_to, unset=unset))
        if arguments.partitions is not None:
            count = arguments.partitions
            admin.run(lambda client: client.create_partitions(arguments.name, count))
    _tell(context, arguments, f"altered {arguments.name}", {"altered": arguments.name})
    return Exit.DONE


def _add_trim(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC")
    parser.add_argument("--partition", type=int, help="only this one")
    parser.add_argument(
        "--before", required=True, metavar="OFFSET", help="the first offset to keep, or: end"
    )


def _trim(arguments: Namespace, context: Context) -> int:
    from moldau.client.admin_topics import TO_THE_END

    before = TO_THE_END
    if arguments.before != "end":
        if not arguments.before.isdecimal():
            raise UsageError("--before takes an offset, or the word end")
        before = int(arguments.before)
    with opened_admin(arguments, context) as admin:
        chosen = admin.run(lambda client: client.partitions(arguments.name))
        if arguments.partition is not None:
            chosen = [each for each in chosen if each.partition == arguments.partition]
            if not chosen:
                raise UsageError(f"{arguments.name} has no partition {arguments.partition}")
        wanted = dict.fromkeys(chosen, before)
        starts = admin.run(lambda client: client.delete_records(wanted))
    facts = [
        {"topic": each.topic, "partition": each.partition, "log_start_offset": starts[each]}
        for each in chosen
    ]
    if arguments.json:
        write_json(context.out, facts)
        return Exit.DONE
    rows = [(each.topic, str(each.partition), str(starts[each])) for each in chosen]
    write_table(context.out, ("TOPIC", "PARTITION", "BEGINS AT"), rows)
    return Exit.DONE


command = ActionCommand(
    "Topics: list, describe, create, delete, alter, trim.",
    (
        Action("list", "the topics there are", _add_list, _list),
        Action("describe", "partitions, leaders, replicas and settings", _add_describe, _describe),
        Action("create", "make a topic", _add_create, _create),
        Action("delete", "delete topics and all their records", _add_delete, _delete),
        Action("alter", "more partitions, other settings", _add_alter, _alter),
        Action("trim", "delete records from the front", _add_trim, _trim),
    ),
)
