"""`moldau txn`: list and describe transactions, find those that hang, and end one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import on_cluster
from moldau.cli.names import name_of, topic_name
from moldau.cli.numbers import INT32_MAX, INT64_MAX, whole
from moldau.cli.output import write_facts, write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES
from moldau.operations.transactions import (
    LONGEST_S,
    STATE_TOPIC,
    OpenTransaction,
    Survey,
    abort,
    end,
    open_transactions,
)

if TYPE_CHECKING:
    from moldau.client import Admin, TransactionDescription
    from moldau.errors.codes import KafkaError

AWAY: Final = (
    f"its coordinator may yet end it: a partition of {STATE_TOPIC} has no leader. Start the "
    f"brokers that have it: `moldau topic describe {STATE_TOPIC}`"
)
_OPEN_HEADER: Final = (
    "TOPIC",
    "PARTITION",
    "TRANSACTIONAL ID",
    "STATE",
    "PRODUCER",
    "EPOCH",
    "OPEN FOR",
    "FROM OFFSET",
    "TO THE END",
)


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument(
        "topics",
        metavar="TOPIC",
        nargs="*",
        type=topic_name,
        help="with --blocking: only these; else all",
    )
    parser.add_argument(
        "--blocking",
        action="store_true",
        help="the partitions in which a transaction is open, and what holds it",
    )
    parser.add_argument("--state", metavar="STATE", action="append", default=[])
    parser.add_argument(
        "--longer-than",
        metavar="SECONDS",
        type=whole(0, INT32_MAX),
        help="only transactions that have been open for longer",
    )


def _list(arguments: Namespace, context: Context) -> int:
    if arguments.blocking:
        if arguments.state:
            raise UsageError("--state is of the list without --blocking")
        return _list_blocking(arguments, context)
    if arguments.topics:
        raise UsageError("topics are looked at with --blocking")
    age_ms = None if arguments.longer_than is None else arguments.longer_than * 1000

    from moldau.client import TransactionAdmin

    try:
        found = on_cluster(
            arguments,
            context,
            lambda client: TransactionAdmin(client).list_all(
                states=arguments.state, longer_than_ms=age_ms
            ),
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    facts = [
        {
            "transactional_id": each.transactional_id,
            "state": each.state,
            "producer_id": each.producer_id,
            "coordinator": each.coordinator,
        }
        for each in found
    ]
    header = ("TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR")
    write_facts(context.out, header, facts, json=arguments.json)
    return Exit.DONE


def _list_blocking(arguments: Namespace, context: Context) -> int:
    now_ms = _now_ms()
    longer_ms = (arguments.longer_than or 0) * 1000
    survey = on_cluster(
        arguments, context, lambda client: open_transactions(client, arguments.topics)
    )
    found = [each for each in survey.found if each.age_ms(now_ms) >= longer_ms]
    return _write_open(arguments, context, survey, found, now_ms)


def _add_describe(parser: ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", type=name_of("transactional id"))


def _describe(arguments: Namespace, context: Context) -> int:
    from moldau.client import TransactionAdmin

    described = on_cluster(
        arguments, context, lambda client: TransactionAdmin(client).describe(arguments.ids)
    )
    facts = [_facts(name, each) for name, each in described.items()]
    if arguments.json:
        write_json(context.out, facts)
    else:
        for each in facts:
            write_lines(context.out, _lines(each))
    return Exit.FAILED if any("error" in each for each in facts) else Exit.DONE


def _facts(name: str, found: TransactionDescription | KafkaError) -> dict[str, Any]:
    from moldau.errors.codes import KafkaError

    if isinstance(found, KafkaError):
        return {"transactional_id": name, "error": str(found)}
    is_open = found.started_ms > 0 and found.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    return {
        "transactional_id": name,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "open_for_ms": max(_now_ms() - found.started_ms, 0) if is_open else None,
        "partitions": [
            {"topic": each.topic, "partition": each.partition} for each in sorted(found.partitions)
        ],
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    name = facts["transactional_id"]
    if "error" in facts:
        return [f"{name}: {facts['error']}"]
    age = "" if facts["open_for_ms"] is None else f", open for {_seconds(facts['open_for_ms'])}"
    lines = [
        f"{name}: {facts['state']}, producer {facts['producer_id']} epoch "
        f"{facts['producer_epoch']}, timeout {_seconds(facts['timeout_ms'])}{age}"
    ]
    return lines + [f"  {each['topic']}:{each['partition']}" for each in facts["partitions"]]


def _add_hanging(parser: ArgumentParser) -> None:
    parser.add_argument(
        "topics", metavar="TOPIC", nargs="*", type=topic_name, help="only these; else all"
    )
    parser.add_argument(
        "--older-than",
        metavar="SECONDS",
        type=whole(0, INT32_MAX),
        default=LONGEST_S,
        help="what was written since may still get its end; default: "
        f"{LONGEST_S}, as transaction.max.timeout.ms",
    )


def _hanging(arguments: Namespace, context: Context) -> int:
    now_ms = _now_ms()
    survey = on_cluster(
        arguments, context, lambda client: open_transactions(client, arguments.topics)
    )
    longest_ms = arguments.older_than * 1000
    found = [each for each in survey.found if each.hangs(now_ms, longest_ms)]
    code = _write_open(arguments, context, survey, found, now_ms)
    unjudged = [each.where for each in survey.found if not each.is_judged]
    for where in unjudged:
        context.err.write(
            f"moldau: {where.topic}:{where.partition}: a transaction is open, and {AWAY}\n"
        )
    return Exit.FAILED if unjudged else code


def _write_open(
    arguments: Namespace,
    context: Context,
    survey: Survey,
    found: list[OpenTransaction],
    now_ms: int,
) -> int:
    if arguments.json:
        write_json(context.out, [_open_facts(each, now_ms) for each in found])
    else:
        write_table(context.out, _OPEN_HEADER, [_open_cells(each, now_ms) for each in found])
    for where, error in survey.failed.items():
        context.err.write(f"moldau: {where.topic}:{where.partition} was not asked: {error}\n")
    return Exit.FAILED if survey.failed else Exit.DONE


def _open_facts(each: OpenTransaction, now_ms: int) -> dict[str, Any]:
    return {
        "topic": each.where.topic,
        "partition": each.where.partition,
        "transactional_id": None if each.holder is None else each.holder.transactional_id,
        "state": None if each.holder is None else each.holder.state,
        "is_known_to_coordinator": each.is_known if each.is_judged else None,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.epoch,
        "coordinator_epoch": each.producer.coordinator_epoch,
        "open_for_ms": each.age_ms(now_ms),
        "start_offset": each.producer.transaction_start_offset,
        "offsets_behind": each.behind,
    }


def _open_cells(each: OpenTransaction, now_ms: int) -> tuple[str, ...]:
    return (
        each.where.topic,
        str(each.where.partition),
        "-" if each.holder is None else each.holder.transactional_id,
        _state(each),
        str(each.producer.producer_id),
        str(each.producer.epoch),
        _seconds(each.age_ms(now_ms)),
        str(each.producer.transaction_start_offset),
        str(each.behind),
    )


def _state(each: OpenTransaction) -> str:
    if not each.is_judged:
        return "its coordinator is away"
    if each.holder is None or not each.is_known:
        return "unknown to its coordinator"
    return each.holder.state


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms // 60_000} min {ms // 1000 % 60} s"


def _now_ms() -> int:
    from moldau.runtime.real import RealClock

    return RealClock().wall_ms()


def _add_abort(parser: ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        type=name_of("transactional id"),
        help="let its coordinator abort its transaction, and fence its producer",
    )
    parser.add_argument("--topic", metavar="TOPIC", type=topic_name)
    parser.add_argument("--partition", metavar="N", type=whole(0, INT32_MAX))
    parser.add_argument(
        "--start-offset",
        metavar="OFFSET",
        type=whole(0, INT64_MAX),
        help="where the transaction begins, as `moldau txn hanging` shows it",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write the marker although the coordinator counts the transaction as open",
    )


def _abort(arguments: Namespace, context: Context) -> int:
    place = (arguments.topic, arguments.partition, arguments.start_offset)
    if arguments.id is not None:
        if any(each is not None for each in place):
            raise UsageError("give an ID, or --topic, --partition and --start-offset")
        return _fence(arguments, context)
    if any(each is None for each in place):
        raise UsageError("give an ID, or all of --topic, --partition and --start-offset")

    async def end_chosen(admin: Admin) -> None:
        survey = await open_transactions(admin, [arguments.topic])
        for error in survey.failed.values():
            raise error
        await end(admin, _chosen(survey, arguments))

    on_cluster(arguments, context, end_chosen)
    what = f"{arguments.topic}:{arguments.partition} from offset {arguments.start_offset}"
    return _done(arguments, context, {"aborted": what}, f"aborted the transaction in {what}")


def _chosen(survey: Survey, arguments: Namespace) -> OpenTransaction:
    """Return the transaction that the arguments name. Refuse one that its coordinator will end:
    a marker of another hand would tear it."""
    place = f"{arguments.topic}:{arguments.partition}"
    found = survey.at(arguments.partition, arguments.start_offset)
    if found is None:
        raise UsageError(
            f"no transaction is open in {place} from offset {arguments.start_offset}; "
            "`moldau txn list --blocking` shows those that are"
        )
    if not found.is_judged and not arguments.force:
        raise UsageError(f"{place}: {AWAY}; or give --force")
    if found.is_known and not arguments.force:
        assert found.holder is not None
        name = found.holder.transactional_id
        raise UsageError(
            f"the transaction is known to its coordinator, and open in other partitions perhaps: "
            f"end all of it by `moldau txn abort {name}`, or give --force"
        )
    return found


def _fence(arguments: Namespace, context: Context) -> int:
    on_cluster(arguments, context, lambda client: abort(client, arguments.id))
    text = f"{arguments.id} has no open transaction now, and its producer is fenced"
    return _done(arguments, context, {"fenced": arguments.id}, text)


def _done(arguments: Namespace, context: Context, facts: dict[str, str], line: str) -> int:
    if arguments.json:
        write_json(context.out, facts)
    else:
        write_lines(context.out, [line])
    return Exit.DONE


command = ActionCommand(
    SUMMARIES["txn"],
    (
        Action(
            "list",
            "the transactional ids, or what blocks readers of committed records",
            _add_list,
            _list,
            "Lists the transactional ids that coordinators know. With --blocking: each partition "
            "in which a transaction is open, with the one that holds it, and how far behind the "
            "end readers of committed records are kept.",
        ),
        Action(
            "describe",
            "the state and the partitions of transactional ids",
            _add_describe,
            _describe,
        ),
        Action(
            "hanging",
            "find transactions that nothing will end",
            _add_hanging,
            _hanging,
            "Finds transactions that are open in a partition, and that their coordinator does not "
            "count as open there. `moldau txn abort` ends one.",
        ),
        Action(
            "abort",
            "end a transaction",
            _add_abort,
            _abort,
            "With an ID, its coordinator aborts its transaction, and fences its producer. With "
            "--topic, --partition and --start-offset, a marker is written into that partition: "
            "this is for a transaction that hangs.",
        ),
    ),
)
