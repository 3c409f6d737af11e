"""`moldau cluster check`: what could not be read or written if a node or a rack died now."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import OpenClient, client_settings, opened_admin
from moldau.cli.numbers import whole
from moldau.cli.output import write_json, write_lines, write_table

if TYPE_CHECKING:
    from moldau.client import Admin
    from moldau.link.addresses import Address
    from moldau.operations.availability import Failure, SeenCluster

LOOK_SECONDS: Final = 0.5
NUMBERS_MAX: Final = 6
_BOOTSTRAP: Final = "bootstrap.servers"


def add_check(parser: ArgumentParser) -> None:
    """Add the arguments that choose failures, and the settings files of clients."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--node", type=whole(0, 2**31 - 1), metavar="ID", help="only if this node dies"
    )
    chosen.add_argument("--rack", metavar="NAME", help="only if all brokers of this rack die")
    parser.add_argument(
        "--client",
        dest="clients",
        action="append",
        default=[],
        metavar="FILE",
        help="a settings file of clients, to see which brokers they begin with; may be repeated",
    )

    parser.add_argument(
        "--within",
        type=whole(1, 86_400),
        metavar="SECONDS",
        help="wait so long first until all other nodes are in sync; with --node",
    )


def check(arguments: Namespace, context: Context) -> int:
    """Show what is at risk. The exit code is 1 if anything is."""
    from moldau.operations.availability import failures_of, look, risks

    clients = _clients(arguments, context)
    if arguments.within is not None and arguments.node is None:
        raise UsageError("--within waits for the other nodes: say --node")
    with opened_admin(arguments, context) as admin:
        seen = admin.run(look)
        if arguments.within is not None:
            seen = _await_others(admin, context, arguments, seen)
    failures = _chosen(failures_of(seen), arguments, seen)
    found = risks(seen, failures, clients)
    if arguments.json:
        facts = [
            {
                "failure": each.failure,
                "kind": each.kind.value,
                "what": each.what,
                "partitions": list(each.partitions),
                "why": each.why,
            }
            for each in found
        ]
        write_json(context.out, {"failures": [each.name for each in failures], "risks": facts})
    elif found:
        rows = [
            (each.failure, each.kind.value, each.what, _numbers(each.partitions), each.why)
            for each in found
        ]
        write_table(context.out, ("IF DEAD", "THEN", "WHAT", "PARTITIONS", "WHY"), rows)
    else:
        count = sum(len(each.partitions) for each in seen.topics)
        names = ", ".join(each.name for each in failures)
        line = f"nothing is at risk: {count} partitions can be read and written without any one of"
        write_lines(context.out, [f"{line} {names}"])
    return Exit.FAILED if found else Exit.DONE


def _await_others(
    admin: OpenClient[Admin], context: Context, arguments: Namespace, seen: SeenCluster
) -> SeenCluster:
    """Wait until nothing but the node itself is out of sync, or the time is over."""
    from moldau.cli.shell import pause
    from moldau.operations.availability import look_again
    from moldau.operations.roll import waits_for

    clock, told = admin.runtime.clock, ""
    until = clock.monotonic() + arguments.within
    known = {each.node_id for each in (*seen.described.brokers, *seen.described.fenced)}
    floors = seen.min_insync
    while (waits := waits_for(seen, known, arguments.node)) and clock.monotonic() < until:
        if waits[0] != told:
            told = waits[0]
            write_lines(context.err, [f"moldau: waits: {told}"])
        admin.run(lambda _: pause(LOOK_SECONDS))
        seen = admin.run(lambda client: look_again(client, floors))
    return seen


def _chosen(failures: list[Failure], arguments: Namespace, seen: SeenCluster) -> list[Failure]:
    from moldau.operations.availability import Failure

    if arguments.node is not None:
        failures = [each for each in failures if each.name == f"node {arguments.node}"]
        if not failures:
            known = ", ".join(map(str, seen.nodes))
            raise UsageError(f"--node {arguments.node}: no such node is alive; there are {known}")
    if arguments.rack is not None:
        brokers = seen.described.brokers
        ids = frozenset(each.node_id for each in brokers if each.rack == arguments.rack)
        if not ids:
            known = ", ".join(sorted({each.rack for each in brokers if each.rack})) or "none"
            raise UsageError(f"--rack {arguments.rack}: no broker has it; there are {known}")
        failures = [Failure(f"rack {arguments.rack}", ids)]
    return failures


def _clients(arguments: Namespace, context: Context) -> dict[str, list[Address]]:
    """Return the addresses in the files of `--client`, and in that of this command if it has one:
    an address on the command line is no setting of clients."""
    from moldau.client.base.file import read_settings
    from moldau.config import SourceKind

    found = {}
    own = client_settings(arguments, context)
    source = own.sources.get(_BOOTSTRAP)
    if source is not None and source.kind is SourceKind.FILE:
        found[source.where] = _addresses(own[_BOOTSTRAP])
    for path in arguments.clients:
        given, _ = read_settings(path)
        if _BOOTSTRAP not in given:
            raise UsageError(f"--client {path}: it has no {_BOOTSTRAP}")
        found[path] = _addresses(given[_BOOTSTRAP])
    return found


def _addresses(text: str) -> list[Address]:
    from moldau.link.addresses import parse_address

    return [parse_address(each) for each in text.split(",") if each.strip()]


def _numbers(partitions: tuple[int, ...]) -> str:
    """Return the first numbers, and how many there are more."""
    text = ",".join(map(str, partitions[:NUMBERS_MAX])) or "-"
    more = len(partitions) - NUMBERS_MAX
    return f"{text} and {more} more" if more > 0 else text
