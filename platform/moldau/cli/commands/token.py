"""`moldau token`: delegation tokens, which stand for the login of a user for some days.

    moldau token create --renewer scheduler --lifetime 12h --out worker.properties
    moldau token list
    moldau token renew TOKEN --period 1h
    moldau token expire TOKEN

A token is named by its id, and its secret is never an argument: those are visible to all users of
the machine. A client that logged in with a token can do none of this.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from typing import Final

from moldau.cli.command import Context, Exit
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import on_cluster
from moldau.cli.commands.login_file import shared_settings, write_login
from moldau.cli.numbers import period
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_HEADER: Final = ("token", "owner", "requester", "renewers", "issued", "expires", "ends")


def _add_new(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--owner", metavar="USER", help="the user that it stands for; default: that of this command"
    )
    parser.add_argument(
        "--renewer",
        metavar="USER",
        action="append",
        default=[],
        help="a user that may renew and end it besides its owner; may be given again",
    )
    parser.add_argument(
        "--lifetime",
        type=period,
        metavar="12h",
        help="default: the longest that the cluster allows",
    )
    parser.add_argument(
        "--mechanism", choices=_MECHANISMS, default=_MECHANISMS[0], help="of the file of --out"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write a new private file with the settings of a client that logs in with it: those "
        "of --command-config with this token",
    )


def _add_list(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--owner",
        metavar="USER",
        action="append",
        help="only tokens of this owner, requester or renewer; may be given again",
    )


def _add_renewal(parser: ArgumentParser) -> None:
    parser.add_argument("token", metavar="TOKEN", help="its id")
    parser.add_argument(
        "--period", type=period, metavar="1h", help="from now on; default: the cluster's"
    )


def _add_end(parser: ArgumentParser) -> None:
    parser.add_argument("token", metavar="TOKEN", help="its id")
    parser.add_argument("--after", type=period, metavar="5m", help="default: now")


def _create(arguments: Namespace, context: Context) -> int:
    from moldau.operations.tokens import create, facts_of, login_of

    path = arguments.out
    shared = {} if path is None else shared_settings(arguments, context)

    token = on_cluster(
        arguments,
        context,
        lambda client: create(client, arguments.owner, arguments.renewer, arguments.lifetime),
    )
    if path is not None:
        settings = {**shared, **login_of(token, arguments.mechanism)}
        write_login(path, settings, f"A delegation token of {token.owner}: keep it private.")
    if arguments.json:
        secret = {} if path is not None else {"hmac": token.password}
        write_json(context.out, facts_of(token) | secret)
        return Exit.DONE
    lines = [f"created {token.token_id} of {token.owner}, until {_time(token.expires_ms)}"]
    if path is None:
        lines += [f"sasl.jaas.config={token.jaas_config()}"]
    else:
        lines[0] += f"; the client's settings are in {path}"
    write_lines(context.out, lines)
    return Exit.DONE


def _list(arguments: Namespace, context: Context) -> int:
    from moldau.operations.tokens import facts_of, found_tokens

    tokens = on_cluster(arguments, context, lambda client: found_tokens(client, arguments.owner))
    if arguments.json:
        write_json(context.out, [facts_of(each) for each in tokens])
        return Exit.DONE
    cells = [
        [
            *(each.token_id, each.owner, each.requester, ", ".join(each.renewers)),
            *(_time(each.issued_ms), _time(each.expires_ms), _time(each.ends_ms)),
        ]
        for each in tokens
    ]
    write_table(context.out, _HEADER, cells)
    return Exit.DONE


def _renew(arguments: Namespace, context: Context) -> int:
    from moldau.operations.tokens import renew

    expires_ms = on_cluster(
        arguments, context, lambda client: renew(client, arguments.token, arguments.period)
    )
    return _done(arguments, context, "renewed", expires_ms)


def _expire(arguments: Namespace, context: Context) -> int:
    from moldau.operations.tokens import expire

    expires_ms = on_cluster(
        arguments, context, lambda client: expire(client, arguments.token, arguments.after)
    )
    return _done(arguments, context, "ended", expires_ms)


def _done(arguments: Namespace, context: Context, done: str, expires_ms: int) -> int:
    if arguments.json:
        write_json(context.out, {"token": arguments.token, "expires_ms": expires_ms})
    else:
        write_lines(context.out, [f"{done} {arguments.token}, until {_time(expires_ms)}"])
    return Exit.DONE


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):
        return "never"


command = ActionCommand(
    SUMMARIES["token"],
    (
        Action(
            "create",
            "a new token",
            _add_new,
            _create,
            "The token stands for a user's login until it ends. Its secret is printed, or written "
            "into the file of --out.",
        ),
        Action(
            "list", "the tokens that this user may see, without their secrets", _add_list, _list
        ),
        Action("renew", "let a token live on", _add_renewal, _renew),
        Action("expire", "end a token, now or later", _add_end, _expire),
    ),
)
