"""`moldau quota`: how much users, client ids and addresses may do in a second.

    moldau quota set --user alice producer_byte_rate=1000000
    moldau quota set --client-id '*' consumer_byte_rate=5000000
    moldau quota set --user alice request_percentage=20 controller_mutation_rate=5
    moldau quota set --ip '*' connection_creation_rate=20

`*` stands for all that have no quota of their own.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import on_cluster
from moldau.cli.numbers import exact
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client.admin.quotas import QuotaEntity

_HEADER: Final = ("user", "client id", "address", "quota", "value")


def _add_nothing(parser: ArgumentParser) -> None:
    """Add no arguments: the action is about all quotas."""


def _add_entity(parser: ArgumentParser) -> None:
    parser.add_argument("--user", metavar="USER", help="without `User:`; '*': all users")
    parser.add_argument("--client-id", metavar="ID", help="'*': all client ids")
    parser.add_argument(
        "--ip", metavar="ADDRESS", help="for connection_creation_rate; '*': all addresses"
    )


def _add_values(parser: ArgumentParser) -> None:
    _add_entity(parser)
    parser.add_argument("values", nargs="+", metavar="QUOTA=VALUE")


def _add_names(parser: ArgumentParser) -> None:
    _add_entity(parser)
    parser.add_argument("names", nargs="+", metavar="QUOTA")


def _list(arguments: Namespace, context: Context) -> int:
    from moldau.client.admin.quotas import QuotaAdmin

    found = on_cluster(arguments, context, lambda client: QuotaAdmin(client).describe())
    if arguments.json:
        rows = [{**entity._asdict(), "quotas": quotas} for entity, quotas in found.items()]
        write_json(context.out, rows)
        return Exit.DONE
    cells = [
        [*(name or "" for name in entity), key, exact(value)]
        for entity, quotas in found.items()
        for key, value in quotas.items()
    ]
    cells.sort()
    write_table(context.out, _HEADER, cells)
    return Exit.DONE


def _set(arguments: Namespace, context: Context) -> int:
    from moldau.client.admin.quotas import QuotaAdmin

    values = dict(map(_value, arguments.values))
    entity = _entity(arguments, values)
    on_cluster(arguments, context, lambda client: QuotaAdmin(client).alter(entity, values))
    write_lines(context.out, [f"set {name}" for name in values])
    return Exit.DONE


def _remove(arguments: Namespace, context: Context) -> int:
    from moldau.client.admin.quotas import QuotaAdmin

    names = list(dict.fromkeys(arguments.names))
    entity = _entity(arguments, names)
    on_cluster(arguments, context, lambda client: QuotaAdmin(client).alter(entity, {}, unset=names))
    write_lines(context.out, [f"removed {name}" for name in names])
    return Exit.DONE


def _entity(arguments: Namespace, names: Iterable[str]) -> QuotaEntity:
    from moldau.operations.quotas import entity_of

    return entity_of(arguments.user, arguments.client_id, arguments.ip, names)


def _value(text: str) -> tuple[str, float]:
    name, equals, number = text.partition("=")
    try:
        if equals and name:
            return name, float(number)
    except ValueError:
        pass
    raise UsageError(f"{text!r} is not QUOTA=VALUE, as producer_byte_rate=1000000")


command = ActionCommand(
    SUMMARIES["quota"],
    (
        Action("list", "all quotas", _add_nothing, _list),
        Action("set", "limit what clients produce and fetch", _add_values, _set),
        Action("remove", "take quotas back", _add_names, _remove),
    ),
)
