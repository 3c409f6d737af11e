"""`moldau streams pause` and `resume`: all workers of an app, each by its own address.

The app's group on the broker has the addresses. A worker that serves no queries has none, and
cannot be reached.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit
from moldau.cli.output import write_json
from moldau.streams.commands.status_action import settled_group

if TYPE_CHECKING:
    from moldau.client.group.descriptions import GroupDescription
    from moldau.runtime.http_client import HttpAnswer

LOGIN: Final = "MOLDAU_STREAMS_LOGIN"
TOKEN: Final = "MOLDAU_STREAMS_TOKEN"  # noqa: S105 - its name
_TIMEOUT_S: Final = 10.0
NO_SERVER: Final = "cannot be reached: start it with --listen"


def add_http_config(parser: ArgumentParser) -> None:
    """Add the options by which workers are reached."""
    parser.add_argument(
        "--http-config",
        metavar="FILE",
        help="the file that the workers have, if it turns on TLS; a login is in the environment: "
        f"{LOGIN} (user:password) or {TOKEN}",
    )


def pause_app(arguments: Namespace, context: Context) -> int:
    """Pause or resume each worker, and print a line for each. Fail if one was not reached."""
    group = settled_group(arguments, context)
    client, target = WorkerClient(arguments.http_config, context), f"/{arguments.action}?only=true"
    rows = [
        (name, server, client.ask("POST", server, target)[1] if server else NO_SERVER)
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


class WorkerClient:
    """Requests of a command to the workers of an app, with the login of its environment."""

    def __init__(self, http_config: str | None, context: Context) -> None:
        """`http_config` is the path of the file that turns on TLS at the workers."""
        from moldau.link.http.protection import load_peer_context
        from moldau.runtime.http_client import basic_login
        from moldau.runtime.real import RealClock

        peers = None if http_config is None else load_peer_context(http_config, RealClock())
        self._tls = None if peers is None else peers()
        self._headers: dict[str, str] = {}
        if login := context.environment.get(LOGIN):
            user, _, password = login.partition(":")
            self._headers = basic_login(user, password)
        elif token := context.environment.get(TOKEN):
            self._headers = {"Authorization": f"Bearer {token}"}

    def ask(self, method: str, server: str, target: str) -> tuple[HttpAnswer | None, str]:
        """Return the answer of one worker, None if there is none, and what is wrong with it."""
        from moldau.runtime.http_client import BlockingHttpClient, HttpTimeouts, NoAnswer

        client = BlockingHttpClient(HttpTimeouts(_TIMEOUT_S, _TIMEOUT_S), self._tls)
        url = f"{'http' if self._tls is None else 'https'}://{server}{target}"
        try:
            answer = client.request(method, url, None, self._headers)
        except NoAnswer as error:
            return None, f"does not answer: {error}"
        finally:
            client.close()
        problem = f"refuses: HTTP {answer.status}: {answer.text.strip()}"
        return answer, "" if answer.is_good else problem
