"""`moldau connect list` and `status`: the state, lag and errors of connectors."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from moldau.cli.command import Context, Exit
from moldau.cli.connect_rest import add_json, add_url, open_rest
from moldau.cli.output import write_json, write_lines, write_table
from moldau.operations.connectors import connector_path

HEADER = ("CONNECTOR", "TYPE", "STATE", "TASKS", "LAG", "RATE/S", "RESTARTS", "GUARANTEE", "ERROR")
TASK_HEADER = ("TASK", "STATE", "WORKER", "LAG", "RATE/S", "RESTARTS", "ERROR")
_FAILED = "FAILED"
RETRYING = "RETRYING"


def configure(actions: Any) -> None:
    """Add both actions to the parser."""
    listing: ArgumentParser = actions.add_parser("list", help="the names of all connectors")
    add_url(listing)
    add_json(listing)
    listing.set_defaults(act=show_names)
    status: ArgumentParser = actions.add_parser(
        "status", help="state, lag, rate, restarts and last error of connectors"
    )
    status.add_argument("names", nargs="*", metavar="NAME", help="default: all, a line each")
    add_url(status)
    add_json(status)
    status.set_defaults(act=show_status)


def show_names(arguments: Namespace, context: Context) -> int:
    with open_rest(arguments, context) as rest:
        names = rest.ask("GET", "/connectors")
    if arguments.json:
        write_json(context.out, names)
    else:
        write_lines(context.out, names)
    return Exit.DONE


def show_status(arguments: Namespace, context: Context) -> int:
    """Print the status. Return FAILED if anything has failed, for scripts."""
    with open_rest(arguments, context) as rest:
        found: dict[str, Any] = rest.ask("GET", "/v1/connectors")
        for name in arguments.names:
            if name not in found:
                rest.ask("GET", connector_path(name))  # raises: it does not exist
    if arguments.names:
        found = {name: found[name] for name in arguments.names}
    if arguments.json:
        write_json(context.out, found)
    elif not found:
        context.out.write("no connectors\n")
    else:
        write_table(context.out, HEADER, [row_of(name, each) for name, each in found.items()])
        for name in arguments.names:
            context.out.write(f"\n{name}\n")
            write_table(context.out, TASK_HEADER, [task_row(task) for task in found[name]["tasks"]])
    return Exit.FAILED if any(_FAILED in states_of(each) for each in found.values()) else Exit.DONE


def states_of(connector: dict[str, Any]) -> list[str]:
    """Return the states of a connector and its tasks."""
    return [connector["state"], *(task["state"] for task in connector["tasks"])]


def row_of(name: str, connector: dict[str, Any]) -> Sequence[str]:
    """Return a connector as one row of the table."""
    tasks = connector["tasks"]
    running = sum(task["state"] == "RUNNING" for task in tasks)
    error = next((shown for each in (connector, *tasks) if (shown := error_of(each))), None)
    state = connector["state"]
    if state == "RUNNING" and any(task["state"] == _FAILED for task in tasks):
        state = "DEGRADED" if running else _FAILED
    elif state == "RUNNING" and any(map(is_retrying, (connector, *tasks))):
        state = RETRYING
    return (
        name,
        connector["type"],
        state,
        f"{running}/{len(tasks)}",
        _total(tasks, "lag"),
        _total(tasks, "rate"),
        str(connector.get("restarts", 0) + sum(task.get("restarts", 0) for task in tasks)),
        connector["guarantee"],
        error or "-",
    )


def task_row(task: dict[str, Any]) -> Sequence[str]:
    return (
        str(task["id"]),
        RETRYING if is_retrying(task) else task["state"],
        task["worker_id"],
        _shown(task.get("lag")),
        _shown(task.get("rate")),
        str(task.get("restarts", 0)) + _next(task),
        error_of(task) or "-",
    )


def is_retrying(part: dict[str, Any]) -> bool:
    """Whether it runs, but waits for something that may pass by itself."""
    return part["state"] == "RUNNING" and bool(part.get("waits_for"))


def error_of(part: dict[str, Any]) -> str | None:
    """Return why it has failed, or what it waits for, in one line."""
    return part.get("error") or part.get("waits_for")


def _next(task: dict[str, Any]) -> str:
    due_ms = task.get("restart_in_ms")
    return "" if due_ms is None else f" (next in {due_ms / 1000:.0f} s)"


def _total(tasks: list[dict[str, Any]], key: str) -> str:
    known = [task[key] for task in tasks if task.get(key) is not None]
    return _shown(sum(known)) if known else "-"


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"
