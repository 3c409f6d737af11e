"""Actions that change connectors: create, pause, resume, stop, restart, delete, offsets."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.connect_rest import add_json, add_url, open_rest
from moldau.cli.output import write_json, write_table
from moldau.operations.connectors import reset_offsets, set_offsets, stored_offsets

Act = Callable[[Namespace, Context], int]


def configure(actions: Any) -> None:
    """Add all these actions to the parser."""
    create = _action(actions, "create", "create connectors from files", create_connectors)
    create.add_argument("files", nargs="+", metavar="FILE", help="JSON or properties")
    create.add_argument("--update", action="store_true", help="change those that exist")
    for name, help_text in (
        ("pause", "let a connector rest; its tasks keep what they have open"),
        ("resume", "go on after pause or stop"),
        ("stop", "end a connector's tasks; its offsets can be changed then"),
    ):
        act = _action(actions, name, help_text, _target(name))
        act.add_argument("names", nargs="+", metavar="NAME")
    restart = _action(actions, "restart", "restart a connector and its tasks", restart_connectors)
    restart.add_argument("names", nargs="+", metavar="NAME")
    restart.add_argument("--only-failed", action="store_true", help="leave what runs alone")
    restart.add_argument("--no-tasks", action="store_true", help="the connector alone")
    delete = _action(actions, "delete", "delete connectors", delete_connectors)
    delete.add_argument("names", nargs="+", metavar="NAME")
    offsets = _action(actions, "offsets", "show, set or reset stored offsets", change_offsets)
    offsets.add_argument("name", metavar="NAME")
    offsets.add_argument("--set", metavar="JSON", help='{"offsets": [{"partition", "offset"}]}')
    offsets.add_argument("--reset", action="store_true", help="forget all of them")


def _action(actions: Any, name: str, help_text: str, act: Act) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(name, help=help_text)
    add_url(parser)
    add_json(parser)
    parser.set_defaults(act=act)
    return parser


def _done(arguments: Namespace, context: Context, what: str, names: list[str]) -> int:
    if arguments.json:
        write_json(context.out, {what: names})
    else:
        for name in names:
            context.out.write(f"{name}: {what}\n")
    return Exit.DONE


def create_connectors(arguments: Namespace, context: Context) -> int:
    from moldau.connect.commands.files import load_connectors

    connectors = load_connectors(arguments.files)
    done = []
    with open_rest(arguments, context) as rest:
        for name, config in connectors.items():
            if arguments.update:
                rest.ask("PUT", rest.connector(name, "/config"), config)
            else:
                rest.ask("POST", "/connectors", {"name": name, "config": config})
            done.append(name)
    return _done(arguments, context, "updated" if arguments.update else "created", done)


_DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


def _target(action: str) -> Act:
    def act(arguments: Namespace, context: Context) -> int:
        with open_rest(arguments, context) as rest:
            for name in arguments.names:
                rest.ask("PUT", rest.connector(name, f"/{action}"))
        return _done(arguments, context, _DONE[action], arguments.names)

    return act


def restart_connectors(arguments: Namespace, context: Context) -> int:
    tasks, failed = (str(not arguments.no_tasks).lower(), str(arguments.only_failed).lower())
    with open_rest(arguments, context) as rest:
        for name in arguments.names:
            path = rest.connector(name, "/restart")
            rest.ask("POST", path, includeTasks=tasks, onlyFailed=failed)
    return _done(arguments, context, "restarting", arguments.names)


def delete_connectors(arguments: Namespace, context: Context) -> int:
    with open_rest(arguments, context) as rest:
        for name in arguments.names:
            rest.ask("DELETE", rest.connector(name))
    return _done(arguments, context, "deleted", arguments.names)


def change_offsets(arguments: Namespace, context: Context) -> int:
    if arguments.set and arguments.reset:
        raise UsageError("--set and --reset exclude each other")
    if not arguments.set and not arguments.reset:
        return _show_offsets(arguments, context)
    with open_rest(arguments, context) as rest:
        if arguments.reset:
            done = reset_offsets(rest, arguments.name)
        else:
            done = set_offsets(rest, arguments.name, _body(arguments.set))
    if arguments.json:
        write_json(context.out, {"message": done})
    else:
        context.out.write(f"{done}\n")
    return Exit.DONE


def _show_offsets(arguments: Namespace, context: Context) -> int:
    with open_rest(arguments, context) as rest:
        offsets = stored_offsets(rest, arguments.name)
    if arguments.json:
        write_json(context.out, {"offsets": [asdict(each) for each in offsets]})
        return Exit.DONE
    rows = [(json.dumps(each.partition), json.dumps(each.offset)) for each in offsets]
    write_table(context.out, ("PARTITION", "OFFSET"), rows)
    return Exit.DONE


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"--set: no JSON: {error}") from None
