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
from moldau.operations import connectors

Act = Callable[[Namespace, Context], int]


def configure(actions: Any) -> None:
    """Add all these actions to the parser."""
    create = _action(actions, "create", "create connectors from files", create_connectors)
    create.add_argument("files", nargs="+", metavar="FILE", help="JSON or properties")
    create.add_argument("--update", action="store_true", help="change those that exist")
    for name, help_text, act_on in (
        ("pause", "let a connector rest; its tasks keep what they have open", pause_connectors),
        ("resume", "go on after pause or stop", resume_connectors),
        ("stop", "end a connector's tasks; its offsets can be changed then", stop_connectors),
    ):
        act = _action(actions, name, help_text, act_on)
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

    configs = load_connectors(arguments.files)
    done = []
    with open_rest(arguments, context) as rest:
        for name, config in configs.items():
            if arguments.update:
                rest.ask("PUT", connectors.connector_path(name, "/config"), config)
            else:
                rest.ask("POST", "/connectors", {"name": name, "config": config})
            done.append(name)
    return _done(arguments, context, "updated" if arguments.update else "created", done)


def pause_connectors(arguments: Namespace, context: Context) -> int:
    return _act(arguments, context, connectors.PAUSE, "paused")


def resume_connectors(arguments: Namespace, context: Context) -> int:
    return _act(arguments, context, connectors.RESUME, "resumed")


def stop_connectors(arguments: Namespace, context: Context) -> int:
    return _act(arguments, context, connectors.STOP, "stopped")


def restart_connectors(arguments: Namespace, context: Context) -> int:
    request = connectors.restart(tasks=not arguments.no_tasks, only_failed=arguments.only_failed)
    return _act(arguments, context, request, "restarting")


def delete_connectors(arguments: Namespace, context: Context) -> int:
    return _act(arguments, context, connectors.DELETE, "deleted")


def _act(
    arguments: Namespace, context: Context, request: connectors.ConnectorRequest, done: str
) -> int:
    with open_rest(arguments, context) as rest:
        for name in arguments.names:
            rest.act(name, request)
    return _done(arguments, context, done, arguments.names)


def change_offsets(arguments: Namespace, context: Context) -> int:
    if arguments.set and arguments.reset:
        raise UsageError("--set and --reset exclude each other")
    if not arguments.set and not arguments.reset:
        return _show_offsets(arguments, context)
    with open_rest(arguments, context) as rest:
        if arguments.reset:
            done = connectors.reset_offsets(rest, arguments.name)
        else:
            done = connectors.set_offsets(rest, arguments.name, _body(arguments.set))
    if arguments.json:
        write_json(context.out, {"message": done})
    else:
        context.out.write(f"{done}\n")
    return Exit.DONE


def _show_offsets(arguments: Namespace, context: Context) -> int:
    with open_rest(arguments, context) as rest:
        offsets = connectors.stored_offsets(rest, arguments.name)
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
