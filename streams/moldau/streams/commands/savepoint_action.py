"""`moldau streams savepoint` and `restore`: the state of an app, out of and into a cluster."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import client_settings
from moldau.cli.output import write_json, write_lines
from moldau.errors.amounts import counted
from moldau.streams.commands.given_app import load_app


def save_app(arguments: Namespace, context: Context) -> int:
    """Take a savepoint, and say how it is restored."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.plan.division import undivided
    from moldau.streams.savepoint.place import place_of
    from moldau.streams.savepoint.taking import take

    plan = load_app(arguments.app, absolute_path(".")).plan()
    place = place_of(arguments.place, RealFiles())
    found = take(plan, place, _given(arguments, context), force=arguments.force)
    records = sum(each.records for each in found.logs)
    kept = dict(undivided(plan))
    if arguments.json:
        facts = {
            "app": found.app,
            "savepoint": place.name,
            "created_ms": found.created_ms,
            "records": records,
            "offsets": {
                f"{topic}-{at}": each.offset for (topic, at), each in found.offsets.items()
            },
            "undivided": kept,
        }
        write_json(context.out, facts)
        return Exit.DONE
    context.out.write(
        f"saved {found.app}: {counted(records, 'row')} in {place.name}; restore it with "
        f"moldau streams restore {arguments.app} {arguments.place}\n"
    )
    write_lines(
        context.out,
        (
            f"store {name}: a restore needs the numbers of partitions that its inputs have now: "
            f"{why}"
            for name, why in kept.items()
        ),
    )
    return Exit.DONE


def restore_app(arguments: Namespace, context: Context) -> int:
    """Restore a savepoint, and say how the app is started."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles
    from moldau.streams.savepoint.place import place_of
    from moldau.streams.savepoint.restoring import restore

    plan = load_app(arguments.app, absolute_path(".")).plan()
    place = place_of(arguments.place, RealFiles())
    found = restore(plan, place, _given(arguments, context))
    if arguments.json:
        write_json(context.out, asdict(found))
        return Exit.DONE
    context.out.write(
        f"restored {found.app}: {counted(found.tasks, 'task')} with "
        f"{counted(found.rows, 'row')}; start it with "
        f"moldau streams run {arguments.app}\n"
    )
    return Exit.DONE


def _given(arguments: Namespace, context: Context) -> dict[str, object]:
    given = client_settings(arguments, context, {})
    return {name: text for name, text in given.items() if name != "client.id"}
