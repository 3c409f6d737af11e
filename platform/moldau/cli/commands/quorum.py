"""`moldau quorum`: the controllers that keep the metadata, and the voters among them (KIP-853)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster import show_quorum
from moldau.cli.commands.cluster_connection import opened_admin
from moldau.cli.commands.cluster_controller import described_quorum, warn_of_voter
from moldau.cli.numbers import whole
from moldau.cli.output import write_lines
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client.admin.cluster import QuorumReplica
    from moldau.ids import Uuid


def _nothing(parser: ArgumentParser) -> None:
    """Add no arguments: the action is about the whole quorum."""


def _add_node(parser: ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", type=whole(0, 2**31 - 1))
    parser.add_argument(
        "--directory-id", metavar="ID", help="of its metadata directory; default: as it is known"
    )


def _add_voter(parser: ArgumentParser) -> None:
    _add_node(parser)
    parser.add_argument(
        "--at",
        metavar="LISTENER://HOST:PORT",
        required=True,
        help="where other controllers reach it",
    )


def _add(arguments: Namespace, context: Context) -> int:
    listener, host, port = _endpoint(arguments.at)
    with opened_admin(arguments, context) as admin:
        quorum = admin.run(described_quorum)
        if any(each.node_id == arguments.node for each in quorum.voters):
            raise UsageError(f"node {arguments.node} is a voter already")
        directory_id = _directory(arguments, quorum.observers, "does not read the metadata log")
        at = {listener: (host, port)}
        admin.run(lambda client: client.add_voter(arguments.node, directory_id, at))
    write_lines(context.out, [f"node {arguments.node} votes"])
    return Exit.DONE


def _remove(arguments: Namespace, context: Context) -> int:
    with opened_admin(arguments, context) as admin:
        quorum = admin.run(described_quorum)
        directory_id = _directory(arguments, quorum.voters, "is no voter")
        admin.run(lambda client: client.remove_voter(arguments.node, directory_id))
    write_lines(context.out, [f"node {arguments.node} votes no more"])
    return Exit.DONE


def _add_controller(parser: ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", type=whole(0, 2**31 - 1))


def _unregister(arguments: Namespace, context: Context) -> int:
    node = arguments.node
    with opened_admin(arguments, context) as admin:
        admin.run(lambda client: client.unregister_controller(node))
        write_lines(context.out, [f"controller {node} is forgotten"])
        warn_of_voter(node, context, admin)
    return Exit.DONE


def _directory(arguments: Namespace, known: tuple[QuorumReplica, ...], else_: str) -> Uuid:
    from moldau.ids import parse_uuid

    if arguments.directory_id is not None:
        try:
            return parse_uuid(arguments.directory_id)
        except ValueError:
            raise UsageError(f"{arguments.directory_id!r} is not the id of a directory") from None
    for each in known:
        if each.node_id == arguments.node:
            return each.directory_id
    ids = ", ".join(str(each.node_id) for each in known) or "none"
    raise UsageError(f"node {arguments.node} {else_}; there are: {ids}")


def _endpoint(text: str) -> tuple[str, str, int]:
    name, _, where = text.partition("://")
    host, _, port = where.rpartition(":")
    if not name or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"{text!r} is not LISTENER://HOST:PORT")
    return name.upper(), host.removeprefix("[").removesuffix("]"), int(port)


command = ActionCommand(
    SUMMARIES["quorum"],
    (
        Action(
            "status", "the leader, the voters, and how far each has read", _nothing, show_quorum
        ),
        Action(
            "add",
            "let a controller vote",
            _add_voter,
            _add,
            "The node has been formatted with `moldau storage format --no-initial-controllers` and "
            "runs: it reads the metadata log, and votes from then on.",
        ),
        Action("remove", "let a controller vote no more", _add_node, _remove),
        Action(
            "unregister",
            "forget a controller that is gone for good",
            _add_controller,
            _unregister,
            "Its registration names addresses and features, and no feature is raised above what it "
            "supports. A controller that runs registers again. Needs metadata.version 33 (4.4).",
        ),
    ),
)
