"""`moldau user`: the SCRAM users of a cluster.

A password is read from the terminal, or from a line of the input, and is never an argument: those
are shown to everyone on the machine.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.commands.cluster_connection import on_cluster, opened_admin
from moldau.cli.commands.login_file import shared_settings, write_login
from moldau.cli.numbers import whole
from moldau.cli.output import write_json, write_lines, write_table
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.client.admin.admin import Admin
    from moldau.client.admin.security import ScramUser
    from moldau.protocol.scram import ScramMechanism

_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORD_BYTES: Final = 20


def _add_nothing(parser: ArgumentParser) -> None:
    """Add no arguments: the action is about all users."""


def _add_user(parser: ArgumentParser) -> None:
    parser.add_argument("user", metavar="USER", help="without `User:`")
    parser.add_argument(
        "--mechanism",
        choices=_MECHANISMS,
        action="append",
        help="may be given again; default: both",
    )


def _add_password(parser: ArgumentParser) -> None:
    _add_user(parser)
    parser.add_argument(
        "--iterations", type=whole(4096, 16_384), default=8192, help="default: 8192"
    )


def _add_new(parser: ArgumentParser) -> None:
    _add_password(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="make a password, and write a new private file with the settings of the client: those "
        "of --command-config with this user",
    )


def _list(arguments: Namespace, context: Context) -> int:
    users = on_cluster(arguments, context, _users)
    if arguments.json:
        rows = [
            {
                "user": each.name,
                "mechanisms": {kind.sasl_name: count for kind, count in each.iterations.items()},
            }
            for each in users
        ]
        write_json(context.out, rows)
    else:
        cells = [
            [each.name, ", ".join(f"{m.sasl_name} ({n})" for m, n in each.iterations.items())]
            for each in users
        ]
        write_table(context.out, ("user", "mechanisms (iterations)"), cells)
    return Exit.DONE


async def _users(client: Admin) -> list[ScramUser]:
    from moldau.client.admin.security import SecurityAdmin

    return await SecurityAdmin(client).describe_users()


def _add(arguments: Namespace, context: Context) -> int:
    return _set(arguments, context, is_new=True)


def _change(arguments: Namespace, context: Context) -> int:
    return _set(arguments, context, is_new=False)


def _set(arguments: Namespace, context: Context, *, is_new: bool) -> int:
    from moldau.operations.users import set_password

    user = arguments.user
    path = arguments.out if is_new else None
    base = None if path is None else shared_settings(arguments, context)
    with opened_admin(arguments, context) as admin:
        is_there = any(each.name == user for each in admin.run(_users))
        if is_new and is_there:
            raise UsageError(f"{user} is there; `moldau user password {user}` sets a password")
        if not is_new and not is_there:
            raise UsageError(f"there is no user {user}; `moldau user add {user}` makes one")
        password = _password(context, user) if base is None else _random_password()
        if path is not None and base is not None:
            _write_settings(path, base, arguments, password)
        admin.run(
            lambda client: set_password(
                client, user, password, _wanted(arguments), arguments.iterations
            )
        )
    where = "" if path is None else f"; the client's settings are in {path}"
    write_lines(context.out, [f"{'added' if is_new else 'set the password of'} {user}{where}"])
    return Exit.DONE


def _remove(arguments: Namespace, context: Context) -> int:
    from moldau.operations.users import remove

    mechanisms = _wanted(arguments) if arguments.mechanism else None
    on_cluster(arguments, context, lambda client: remove(client, arguments.user, mechanisms))
    write_lines(context.out, [f"removed {arguments.user}"])
    return Exit.DONE


def _random_password() -> str:
    from base64 import b32encode

    from moldau.runtime.real import RealRuntime

    return b32encode(RealRuntime("user").random.randbytes(_PASSWORD_BYTES)).decode().lower()


def _write_settings(path: str, base: dict[str, str], arguments: Namespace, password: str) -> None:
    from moldau.link.login.jaas import LoginModule, write_jaas

    login = LoginModule("SCRAM", {"username": arguments.user, "password": password})
    settings = {
        **base,
        "sasl.mechanism": _wanted(arguments)[-1].sasl_name,
        "sasl.jaas.config": write_jaas(login),
    }
    write_login(path, settings, f"The settings of {arguments.user}: keep them private.")


def _wanted(arguments: Namespace) -> list[ScramMechanism]:
    from moldau.protocol.scram import SCRAM_MECHANISMS

    return [SCRAM_MECHANISMS[each] for each in arguments.mechanism or _MECHANISMS]


def _password(context: Context, user: str) -> str:
    password = _read_password(context, user)
    if not password:
        raise UsageError("give the password as a line of the input; it is not empty")
    return password


def _read_password(context: Context, user: str) -> str:
    source = context.source
    if source.isatty():
        from getpass import getpass

        first = getpass(f"password of {user}: ")
        if first != getpass("again: "):
            raise UsageError("the two passwords are not the same")
        return first
    try:
        return source.readline().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError("the password is not UTF-8") from None


command = ActionCommand(
    SUMMARIES["user"],
    (
        Action("list", "all users", _add_nothing, _list),
        Action(
            "add",
            "a new user",
            _add_new,
            _add,
            "The password is asked for, is a line of the input, or is made and written by --out.",
        ),
        Action(
            "password",
            "set the password of a user",
            _add_password,
            _change,
            "The password is asked for, or is a line of the input.",
        ),
        Action("remove", "remove a user; rules about it stay", _add_user, _remove),
    ),
)
