"""`moldau cluster`: run, roll and balance a cluster, and show what it has and what is at risk."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_balance import add_balance, balance
from moldau.cli.commands.cluster_check import add_check, check
from moldau.cli.commands.cluster_connection import on_cluster, opened_admin
from moldau.cli.commands.cluster_controller import (
    all_brokers,
    described_quorum,
    leading_controller,
)
from moldau.cli.commands.cluster_roll import add_roll, roll
from moldau.cli.commands.cluster_top import add_top, top
from moldau.cli.commands.cluster_up import add_up, run_up
from moldau.cli.numbers import binary_size, whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client import LogDir
    from moldau.client.admin.cluster import Quorum, QuorumReplica
    from moldau.link.metadata import Broker

_LEADS: Final = "leader of the metadata quorum"
_PASSES_ON: Final = "a broker that passes requests on to the controller"


def _nothing(parser: ArgumentParser) -> None:
    """Add no arguments: the action is about the whole cluster."""


def _add_broker(parser: ArgumentParser) -> None:
    parser.add_argument("--broker", type=whole(0, 2**31 - 1), help="only this one")


def _describe(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        cluster = admin.run(all_brokers)
        features = admin.run(lambda client: client.describe_features())
        leader = admin.run(leading_controller)
    if arguments.json:
        facts = {
            "id": cluster.cluster_id,
            "controller": cluster.controller_id if leader is None else leader,
            "controller_is": _PASSES_ON if leader is None else _LEADS,
        }
        nodes = {
            "brokers": list(map(_broker_facts, cluster.brokers)),
            "fenced": list(map(_broker_facts, cluster.fenced)),
        }
        write_json(context.out, {**facts, **nodes, "features": features})
        return Exit.DONE
    write_lines(
        context.out,
        [f"cluster {cluster.cluster_id}", _controller_line(leader, cluster.controller_id)],
    )
    brokers = sorted((*cluster.brokers, *cluster.fenced), key=lambda each: each.node_id)
    hosts = [[each] for each in brokers] if arguments.each else shards_together(brokers)
    down = {each.node_id for each in cluster.fenced}
    rows = [_host_cells(each, down, leader) for each in hosts]
    write_table(context.out, ("BROKER", "ADDRESS", "RACK", "STATE", "CONTROLLER"), rows)
    if features:
        levels = [(name, str(level)) for name, level in sorted(features.items())]
        write_table(context.out, ("FEATURE", "LEVEL"), levels)
    return Exit.DONE


def shards_together(brokers: Iterable[Broker]) -> list[list[Broker]]:
    """Return the brokers, in the order of their ids, with the shards of a host together: they have
    ids and ports in a row, and one rack that was given."""
    hosts: list[list[Broker]] = []
    for each in brokers:
        before = hosts[-1][-1] if hosts else None
        if (
            before is not None
            and each.rack is not None
            and (each.rack, each.address.host) == (before.rack, before.address.host)
            and each.node_id == before.node_id + 1
            and each.address.port == before.address.port + 1
        ):
            hosts[-1].append(each)
        else:
            hosts.append([each])
    return hosts


def _host_cells(
    shards: Sequence[Broker], down: Container[int], leader: int | None
) -> tuple[str, ...]:
    """Return the row of a broker, or of a host with its shards."""
    first, last, count = shards[0], shards[-1], len(shards)
    up = sum(each.node_id not in down for each in shards)
    ids, address = str(first.node_id), str(first.address)
    state = "up" if up else "down"
    if count > 1:
        ids, address = f"{ids}-{last.node_id}", f"{address}-{last.address.port}"
        state = f"{count} shards, {'all' if up == count else up} up"
    leads = "yes" if leader in [each.node_id for each in shards] else ""
    return ids, address, first.rack or "-", state, leads


def _add_each(parser: ArgumentParser) -> None:
    parser.add_argument("--each", action="store_true", help="a line for each shard of a host")


def _broker_facts(broker: Broker) -> dict[str, Any]:
    return {
        "id": broker.node_id,
        "host": broker.address.host,
        "port": broker.address.port,
        "rack": broker.rack,
    }


def _controller_line(leader: int | None, passes_on: int) -> str:
    if leader is not None:
        return f"controller {leader}, the leader of the metadata quorum"
    unknown = "controller unknown: the quorum tells no leader"
    return f"{unknown}; broker {passes_on} passes requests on to it" if passes_on >= 0 else unknown


def show_quorum(arguments: Namespace, context: Context) -> int:
    """Show the leader, voters and observers of the metadata quorum, and how far each has read."""
    quorum = on_cluster(arguments, context, described_quorum)
    replicas = [("voter", each) for each in quorum.voters]
    replicas += [("observer", each) for each in quorum.observers]
    if arguments.json:
        members = [
            {
                "role": role,
                "id": each.node_id,
                "log_end_offset": each.log_end_offset,
                "last_fetch_ms": each.last_fetch_ms,
                "last_caught_up_ms": each.last_caught_up_ms,
            }
            for role, each in replicas
        ]
        facts = {
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "replicas": members,
        }
        write_json(context.out, facts)
        return Exit.DONE
    context.out.write(
        f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}\n"
    )
    ahead = max((each.log_end_offset for _, each in replicas), default=0)
    now_ms = max((each.last_fetch_ms for _, each in replicas), default=0)
    rows = [_member_cells(quorum, role, each, ahead, now_ms) for role, each in replicas]
    write_table(context.out, ("NODE", "ROLE", "LOG END", "LAG", "LAST FETCH"), rows)
    return Exit.DONE


def _member_cells(
    quorum: Quorum, role: str, member: QuorumReplica, ahead: int, now_ms: int
) -> tuple[str, ...]:
    """Return a row of the quorum table. The leader counts as fetching now, so `now_ms` is its
    clock. If a node has not fetched since the leader was elected, nothing is known of its log."""
    if member.node_id == quorum.leader_id:
        return str(member.node_id), role, str(member.log_end_offset), "0", "leads"
    if member.last_caught_up_ms < 0 and member.log_end_offset <= 0:
        return str(member.node_id), role, "-", "-", "never from this leader"
    ago = f"{(now_ms - member.last_fetch_ms) / 1000:.1f} s ago"
    lag = ahead - member.log_end_offset
    return str(member.node_id), role, str(member.log_end_offset), str(lag), ago


def _log_dirs(arguments: Namespace, context: Context) -> int:
    brokers = None if arguments.broker is None else [arguments.broker]
    found = on_cluster(arguments, context, lambda client: client.describe_log_dirs(brokers))
    if arguments.json:
        write_json(context.out, [_log_dir(each) for each in found])
    else:
        rows = [
            (
                str(each.broker),
                each.path,
                str(len(each.replicas)),
                binary_size(sum(replica.size_bytes for replica in each.replicas)),
                binary_size(each.usable_bytes),
                "ok" if each.error is None else each.error.code.name,
            )
            for each in found
        ]
        header = ("BROKER", "DIRECTORY", "REPLICAS", "USED", "FREE", "STATE")
        write_table(context.out, header, rows)
    return Exit.FAILED if any(each.error for each in found) else Exit.DONE


def _log_dir(directory: LogDir) -> dict[str, Any]:
    return {
        "broker": directory.broker,
        "path": directory.path,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "error": None if directory.error is None else directory.error.code.name,
        "replicas": [
            {
                "topic": each.where.topic,
                "partition": each.where.partition,
                "size_bytes": each.size_bytes,
                "offset_lag": each.offset_lag,
                "future": each.is_future,
            }
            for each in directory.replicas
        ],
    }


def _versions(arguments: Namespace, context: Context) -> int:
    from moldau.protocol.messages import API, OWN

    known = {**API, **OWN}
    found = on_cluster(
        arguments, context, lambda client: client.describe_api_versions(arguments.broker)
    )
    facts = [
        {"api": known[key].name if key in known else None, "key": key, "first": first, "last": last}
        for key, (first, last) in sorted(found.items())
    ]
    if arguments.json:
        write_json(context.out, facts)
        return Exit.DONE
    rows = [
        (str(each["key"]), str(each["api"] or "unknown here"), f"{each['first']}-{each['last']}")
        for each in facts
    ]
    write_table(context.out, ("KEY", "API", "VERSIONS"), rows)
    return Exit.DONE


def add_features(parser: ArgumentParser) -> None:
    """Add the arguments of `moldau cluster features`."""
    change = parser.add_mutually_exclusive_group()
    change.add_argument(
        "--upgrade", metavar="NAME=LEVEL", nargs="+", help="raise features to these levels"
    )
    change.add_argument(
        "--downgrade",
        metavar="NAME=LEVEL",
        nargs="+",
        help="lower features to these levels, unless metadata would be lost; 0 disables one",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say whether the cluster would do it"
    )


def features(arguments: Namespace, context: Context) -> int:
    """Show the levels of all features, or change some."""
    from moldau.client.admin.cluster import Downgrade

    asked = arguments.upgrade or arguments.downgrade
    if asked is None:
        if arguments.dry_run:
            raise UsageError("--dry-run goes with --upgrade or --downgrade")
        return _show(arguments, context)
    levels = _levels(asked)
    downgrade = Downgrade.SAFE if arguments.downgrade else None
    on_cluster(
        arguments,
        context,
        lambda client: client.update_features(
            levels, downgrade=downgrade, dry_run=arguments.dry_run
        ),
    )
    verb = "could be" if arguments.dry_run else "is"
    write_lines(context.out, (f"{name} {verb} {level}" for name, level in levels.items()))
    return Exit.DONE


def _show(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        levels = admin.run(lambda client: client.describe_features())
        known = admin.run(lambda client: client.supported_features())
    names = sorted({*levels, *known})
    if arguments.json:
        facts = {
            name: {"level": levels.get(name, 0), "supported": known.get(name)} for name in names
        }
        write_json(context.out, facts)
        return Exit.DONE
    rows = [
        (name, str(levels.get(name, 0)), "-".join(map(str, known.get(name, ("?",)))))
        for name in names
    ]
    write_table(context.out, ("FEATURE", "LEVEL", "SUPPORTED"), rows)
    return Exit.DONE


def _levels(words: Iterable[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for word in words:
        name, _, level = word.partition("=")
        if not name or not level.isascii() or not level.isdigit():
            raise UsageError(f"{word!r} is not NAME=LEVEL, such as share.version=1")
        levels[name] = int(level)
    return levels


command = ActionCommand(
    SUMMARIES["cluster"],
    (
        Action(
            "up",
            "run a cluster of several nodes on this machine",
            add_up,
            run_up,
            "Runs nodes that are brokers and controllers, each in a process of its own, until "
            "Ctrl-C. What they have is kept in --data.",
            has_cluster=False,
        ),
        Action(
            "check",
            "what could not be read or written if a node died now",
            add_check,
            check,
            "Looks at each node and rack: partitions, the metadata quorum, and which brokers "
            "clients begin with. The exit code is 1 if anything is at risk.",
        ),
        Action(
            "roll",
            "restart or upgrade every node, one after the other",
            add_roll,
            roll,
            "Restarts a node only while all replicas and voters are in sync; the active controller "
            "is the last. If it is cut short, the same command goes on.",
        ),
        Action(
            "balance",
            "move replicas and leaders until brokers have about the same load",
            add_balance,
            balance,
            "Shows the plan; --execute carries it out. If it is cut short, the same command goes "
            "on.",
        ),
        Action("describe", "its id, its brokers, its features", _add_each, _describe),
        Action(
            "features",
            "levels of features: show, raise, lower",
            add_features,
            features,
            "Raise features when all nodes have a new version; lower them before the first node "
            "goes back to an old one.",
        ),
        Action("quorum", "the controllers that keep the metadata", _nothing, show_quorum),
        Action(
            "top",
            "what each broker leads, holds and takes in, live",
            add_top,
            top,
            "Looks every two seconds until Ctrl-C. BEHIND are replicas that are not in sync; the "
            "broker that leads the metadata quorum has a star.",
        ),
        Action("log-dirs", "disks, what is on them and what is wrong", _add_broker, _log_dirs),
        Action("versions", "which versions of each API a broker serves", _add_broker, _versions),
    ),
)
