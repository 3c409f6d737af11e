"""`moldau streams move`: carry a stopped app between the embedded engine and Spark."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import client_settings
from moldau.cli.output import write_json
from moldau.streams.commands.given_app import load_app


def move_app(arguments: Namespace, context: Context) -> int:
    """Move the app, and say how it is started there."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.spark.deployment import is_deployment
    from moldau.streams.spark.moving import to_embedded, to_spark

    plan = load_app(arguments.app, absolute_path(".")).plan()
    given: dict[str, object] = {
        name: text
        for name, text in client_settings(arguments, context, {}).items()
        if not is_deployment(name) and name != "client.id"
    }
    move = to_spark if arguments.to == "spark" else to_embedded
    found = move(plan, arguments.checkpoint, given)
    if arguments.json:
        write_json(context.out, asdict(found))
        return Exit.DONE
    where = ""
    if arguments.to == "spark":
        where = f" --engine spark --checkpoint {arguments.checkpoint}"
    carried = f"{found.tasks} tasks with {found.rows} rows" if found.tasks else ""
    context.out.write(
        f"moved {found.app}: {', '.join(filter(None, (carried, found.note)))}; start it with "
        f"moldau streams run {arguments.app}{where}\n"
    )
    return Exit.DONE
