"""`moldau topic`: list, describe, create, delete, alter and trim topics.

Invariants: a topic that no word names in full is deleted only after the user has seen its name and
agreed, or has given `--yes`. The result of every trimmed partition is reported, because a deletion
cannot be undone.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import (
    assignments,
    named_values,
    on_cluster,
    opened_admin,
)
from moldau.cli.missing_right import warn_of_hidden
from moldau.cli.names import name_of, topic_name
from moldau.cli.numbers import INT16_MAX, INT32_MAX, is_int64, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.patterns import (
    NAME_OR_PATTERN,
    check_matching_visible,
    is_pattern,
    is_reserved,
    matches,
    named_topics,
)
from moldau.cli.summaries import SUMMARIES
from moldau.errors.amounts import counted

if TYPE_CHECKING:
    from moldau.client import Admin, CreatedTopic, Partition, Topic, TopicPartition
    from moldau.errors.codes import KafkaError


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="PATTERN", help="such as 'orders-*'")
    parser.add_argument("--internal", action="store_true", help="also those of the brokers")


def _list(arguments: Namespace, context: Context) -> int:
    found = on_cluster(arguments, context, lambda client: client.list_topics(internal=True))
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
    from moldau.operations.topics import own_settings

    async def settings(client: Admin) -> dict[str, dict[str, str | None]]:
        return {each.name: await own_settings(client, each.name) for each in topics}

    with opened_admin(arguments, context) as admin:
        words = arguments.names
        warn_of_hidden(admin, context, lambda client: check_matching_visible(client, words))
        names = admin.run(lambda client: named_topics(client, arguments.names))
        found = admin.run(lambda client: client.describe_topics(names)).values()
        topics = [each for each in found if not isinstance(each, KafkaError)]
        errors = admin.naming_nearest(each for each in found if isinstance(each, KafkaError))
        configs = admin.run(settings)
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
    for short, name, most in ("-p", "--partitions", INT32_MAX), ("-r", "--replicas", INT16_MAX):
        default = "else the cluster's default"
        parser.add_argument(short, name, type=whole(1, most), default=-1, help=default)
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
    with _explaining_unknown_settings(arguments), opened_admin(arguments, context) as admin:
        results = admin.run(lambda client: client.create_topics(wanted))
        failed = admin.failures(
            {name: each if isinstance(each, KafkaError) else None for name, each in results.items()}
        )
    documents, lines, errors = [], [], []
    for name, made in results.items():
        if not isinstance(made, KafkaError):
            documents.append(_created(made))
            text = f"partitions {made.partitions}, replicas {made.replication_factor}"
            lines.append(f"created {name}: {text}")
        elif arguments.if_not_exists and made.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            documents.append({"created": False, "name": name})
            lines.append(f"{name} exists already")
        else:
            errors.append(failed[name])
    if not arguments.json:
        write_lines(context.out, lines)
    elif documents:
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
def _explaining_unknown_settings(arguments: Namespace) -> Iterator[None]:
    """Add a hint to an error about `--set` that `--config` is for settings of the topic."""
    from moldau.config import BadSettings

    try:
        yield
    except BadSettings as error:
        unknown = {each.name for each in error.problems if each.reason == "unknown setting"}
        if unknown.isdisjoint(name for name, _ in named_values(arguments.client_settings)):
            raise
        raise UsageError(f"{error}\n--set is for the client; --config is for the topic") from error


def _add_delete(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC", type=topic_name, help=NAME_OR_PATTERN)
    parser.add_argument(
        "--yes", action="store_true", help="with a pattern: do it without a question"
    )


def _delete(arguments: Namespace, context: Context) -> int:
    """Delete the topics. Return FAILED if one of them was not deleted."""
    with opened_admin(arguments, context) as admin:
        words = arguments.names
        # What is deleted is what is seen: nothing that is hidden is harmed.
        warn_of_hidden(admin, context, lambda client: check_matching_visible(client, words))
        names = admin.run(
            lambda client: named_topics(client, arguments.names, is_left_out=is_reserved)
        )
        if any(map(is_pattern, arguments.names)) and not arguments.yes:
            # With --json the output is one document, so the names go beside the question.
            out = context.err if arguments.json else context.out
            write_lines(out, (f"would delete {name}" for name in names))
            out.flush()
            if not context.asks_to_agree():
                return _give_up(arguments, context, names)
        results = admin.run(lambda client: client.delete_topics(names))
        failed = admin.failures(results)
    deleted = [name for name in results if name not in failed]
    if arguments.json:
        reasons = {name: str(error) for name, error in failed.items()}
        write_json(context.out, {"deleted": deleted, "failed": reasons})
    else:
        context.out.writelines(f"deleted {name}\n" for name in deleted)
    for error in failed.values():
        context.err.write(f"moldau: {error}\n")
    return Exit.FAILED if failed else Exit.DONE


def _give_up(arguments: Namespace, context: Context, names: Sequence[str]) -> int:
    if arguments.json:
        write_json(context.out, {"deleted": [], "failed": {}, "would_delete": list(names)})
    context.err.write("moldau: nothing was deleted: type yes, or give --yes\n")
    return Exit.FAILED


def _add_alter(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC", type=topic_name)
    parser.add_argument(
        "-p", "--partitions", type=whole(1, INT32_MAX), help="how many it shall have in all"
    )
    parser.add_argument("-c", "--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--unset", action="append", default=[], metavar="NAME", type=name_of("setting")
    )


def _alter(arguments: Namespace, context: Context) -> int:
    from moldau.client import Resource, ResourceType
    from moldau.operations.settings import check_known
    from moldau.operations.topics import alter

    if arguments.partitions is None and not arguments.config and not arguments.unset:
        raise UsageError("nothing to alter: give --partitions, --config or --unset")
    set_to = assignments(arguments.config)
    both = sorted(set_to.keys() & set(arguments.unset))
    if both:
        raise UsageError(f"{both[0]} is both set and unset")
    unset = list(dict.fromkeys(arguments.unset))

    async def change(client: Admin) -> None:
        await check_known(client, Resource(ResourceType.TOPIC, arguments.name), unset)
        await alter(client, arguments.name, set_to, unset, arguments.partitions)

    on_cluster(arguments, context, change)
    if arguments.json:
        write_json(context.out, {"altered": arguments.name})
    else:
        context.out.write(f"altered {arguments.name}\n")
    return Exit.DONE


def _add_trim(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="TOPIC", type=topic_name)
    parser.add_argument("--partition", type=int, help="only this one")
    parser.add_argument(
        "--before", required=True, metavar="OFFSET", help="the first offset to keep, or: end"
    )


def _trim(arguments: Namespace, context: Context) -> int:
    """Trim the partitions. Return FAILED if any of them was not trimmed."""
    before = _before(arguments.before)
    with opened_admin(arguments, context) as admin:
        chosen = admin.run(lambda client: client.partitions(arguments.name))
        if arguments.partition is not None:
            chosen = [each for each in chosen if each.partition == arguments.partition]
            if not chosen:
                raise UsageError(f"{arguments.name} has no partition {arguments.partition}")
        wanted = dict.fromkeys(chosen, before)
        results = admin.run(lambda client: client.delete_records(wanted))
    _write_starts(arguments, context, results)
    failed = sum(not isinstance(each, int) for each in results.values())
    if not failed:
        return Exit.DONE
    context.err.write(f"moldau: not trimmed: {failed} of {counted(len(results), 'partition')}\n")
    return Exit.FAILED


def _before(text: str) -> int:
    from moldau.client.admin.topics import TO_THE_END

    if text == "end":
        return TO_THE_END
    if not is_int64(text):
        raise UsageError("--before takes an offset, or the word end")
    return int(text)


def _write_starts(
    arguments: Namespace, context: Context, results: dict[TopicPartition, int | KafkaError]
) -> None:
    starts = {where: each if isinstance(each, int) else None for where, each in results.items()}
    errors = {where: each for where, each in results.items() if not isinstance(each, int)}
    if arguments.json:
        facts = [
            {
                "topic": where.topic,
                "partition": where.partition,
                "log_start_offset": start,
                "error": str(errors[where]) if where in errors else None,
            }
            for where, start in starts.items()
        ]
        write_json(context.out, facts)
        return
    header = ["TOPIC", "PARTITION", "BEGINS AT"] + (["NOT TRIMMED"] if errors else [])
    rows = []
    for where, start in starts.items():
        row = [where.topic, str(where.partition), "-" if start is None else str(start)]
        rows.append(row + ([_why(errors[where]) if where in errors else ""] if errors else []))
    write_table(context.out, header, rows)


def _why(error: KafkaError) -> str:
    return f"{error.code.name}: {error.reason}" if error.reason else error.code.name


command = ActionCommand(
    SUMMARIES["topic"],
    (
        Action("list", "the topics there are", _add_list, _list),
        Action("describe", "partitions, leaders, replicas and settings", _add_describe, _describe),
        Action("create", "make a topic", _add_create, _create),
        Action("delete", "delete topics and all their records", _add_delete, _delete),
        Action("alter", "more partitions, other settings", _add_alter, _alter),
        Action("trim", "delete records from the front", _add_trim, _trim),
    ),
)
