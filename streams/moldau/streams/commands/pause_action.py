"""`moldau streams pause` and `resume`: all workers of an app, each by its own address.

The app's group on the broker has the addresses. A worker that serves no queries has none, and
cannot be reached.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json
from moldau.streams.commands.status_action import described_group

if TYPE_CHECKING:
    import ssl

    from moldau.client.group.descriptions import GroupDescription

LOGIN: Final = "MOLDAU_STREAMS_LOGIN"
TOKEN: Final = "MOLDAU_STREAMS_TOKEN"  # noqa: S105 - its name
_TIMEOUT_S: Final = 10.0
_NO_SERVER: Final = "cannot be reached: start it with --listen"


def add_pause(parser: ArgumentParser) -> None:
    """Add the options by which workers are reached."""
    parser.add_argument(
        "--http-config",
        metavar="FILE",
        help="the file that the workers have, if it turns on TLS; a login is in the environment: "
        f"{LOGIN} (user:password) or {TOKEN}",
    )


def pause_app(arguments: Namespace, context: Context) -> int:
    """Pause or resume each worker, and print a line for each. Fail if one was not reached."""
    group = described_group(arguments, context)
    tls = _tls(arguments.http_config)
    rows = [
        (name, server, _asked(arguments.action, server, context, tls) if server else _NO_SERVER)
        for name, server in addresses(group)
    ]
    if arguments.json:
        workers = [
            {"worker": name, "server": server, "problem": problem} for name, server, problem in rows
        ]
        write_json(context.out, {"app": group.group_id, "workers": workers})
    else:
        done = {"pause": "paused", "resume": "resumed"}[arguments.action]
        for name, server, problem in rows:
            print(f"{name} {server or '-'}: {problem or done}", file=context.out)
    is_done = rows and not any(problem for _, _, problem in rows)
    return Exit.DONE if is_done else Exit.FAILED


def addresses(group: GroupDescription) -> list[tuple[str, str]]:
    """Return the workers of a group by name, each with the address of its queries."""
    from moldau.streams.worker.owners import address_in

    return sorted(
        (each.instance_id or each.member_id, address_in(each.user_data).server)
        if each.tasks is None
        else (each.member_id, each.tasks.endpoint)
        for each in group.members
    )


def _tls(path: str | None) -> ssl.SSLContext | None:
    from moldau.link.http.protection import load_peer_context
    from moldau.runtime.real import RealClock

    peers = None if path is None else load_peer_context(path, RealClock())
    return None if peers is None else peers()


def _asked(action: str, server: str, context: Context, tls: ssl.SSLContext | None) -> str:
    """Ask one worker; return what is wrong, "" if nothing is."""
    from moldau.runtime.http_client import BlockingHttpClient, HttpTimeouts, NoAnswer, basic_login

    headers: dict[str, str] = {}
    if login := context.environment.get(LOGIN):
        user, _, password = login.partition(":")
        headers = basic_login(user, password)
    elif token := context.environment.get(TOKEN):
        headers = {"Authorization": f"Bearer {token}"}
    client = BlockingHttpClient(HttpTimeouts(_TIMEOUT_S, _TIMEOUT_S), tls)
    url = f"{'http' if tls is None else 'https'}://{server}/{action}?only=true"
    try:
        answer = client.request("POST", url, None, headers)
    except NoAnswer as error:
        return f"does not answer: {error}"
    finally:
        client.close()
    return "" if answer.is_good else f"refuses: HTTP {answer.status}: {answer.text.strip()}"
