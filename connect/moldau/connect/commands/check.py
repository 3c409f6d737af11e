"""`lint`, `dry-run` and `plan`: check a config, and show what it would do, before it runs.

    lint     the config alone: every key, every plugin; no connection is opened
    dry-run  the same, and that servers answer and that tables and files exist
    plan     what would run: tasks, topics, group, guarantee

They need no worker and use the plugins of this Python. With the worker's settings (`--config`,
`--set`) config providers and the policy on client overrides are those of the worker.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from moldau.cli.command import Context, Exit
from moldau.cli.connect_rest import add_json
from moldau.cli.output import write_json, write_lines
from moldau.connect.commands.files import Config, load_connectors
from moldau.connect.commands.worker import add_worker_settings
from moldau.errors import MoldauError


def configure(actions: Any) -> None:
    """Add all three actions to the parser."""
    for name, help_text, act in (
        ("lint", "check configs without connecting to anything", lint),
        ("dry-run", "check configs, and that what they connect to answers", dry_run),
        ("plan", "tell what configs would run: tasks, topics, guarantee", plan),
    ):
        parser: ArgumentParser = actions.add_parser(name, help=help_text)
        parser.add_argument("files", nargs="+", metavar="FILE", help="JSON or properties")
        add_worker_settings(parser)
        add_json(parser)
        parser.set_defaults(act=act, bootstrap=None)


def lint(arguments: Namespace, context: Context) -> int:
    return _check(arguments, context, asks=False)


def dry_run(arguments: Namespace, context: Context) -> int:
    return _check(arguments, context, asks=True)


def _check(arguments: Namespace, context: Context, *, asks: bool) -> int:
    """Check configs. Return FAILED if one has an error; warnings are only printed."""
    worker = local_worker(arguments, context)
    found = {
        name: problems_of(config, worker, asks=asks, is_dry_run=asks)
        for name, config in load_connectors(arguments.files).items()
    }
    if arguments.json:
        write_json(context.out, found)
    else:
        for name, (errors, warnings) in ((name, (each["errors"], each["warnings"]))
                                         for name, each in found.items()):  # fmt: skip
            lines = [f"{name}: error: {error}" for error in errors]
            lines += [f"{name}: warning: {warning}" for warning in warnings]
            write_lines(context.out, lines or [f"{name}: ok"])
    return Exit.FAILED if any(each["errors"] for each in found.values()) else Exit.DONE


def local_worker(arguments: Namespace, context: Context) -> dict[str, str]:
    """Return the worker's settings, as far as the command line has them."""
    from moldau.connect.commands.worker import settings_given
    from moldau.runtime.real_files import RealFiles

    return settings_given(arguments, context, RealFiles())


def problems_of(
    config: Config, worker: Mapping[str, str], *, asks: bool, is_dry_run: bool = False
) -> dict[str, list[str]]:
    """Return errors and warnings of one config, as a worker with these settings finds them."""
    from moldau.connect.herder.operations import validated

    try:
        infos = validated(config, worker, asks=asks, is_dry_run=asks and is_dry_run)
    except MoldauError as error:
        return {"errors": [str(error)], "warnings": []}
    return {
        "errors": list(dict.fromkeys(str(problem) for problem in infos.errors)),
        "warnings": list(dict.fromkeys(str(problem) for problem in infos.warnings)),
    }


def plan(arguments: Namespace, context: Context) -> int:
    """Print what configs would run. Return FAILED if one cannot run."""
    from moldau.connect.commands.forecast import forecast

    worker = local_worker(arguments, context)
    found: dict[str, dict[str, Any]] = {}
    for name, config in load_connectors(arguments.files).items():
        errors = problems_of(config, worker, asks=True)["errors"]
        if errors:
            found[name] = {"errors": errors}
            continue
        kept = {key: value for key, value in config.items() if value is not None}
        found[name] = forecast(name, kept, worker)
    if arguments.json:
        write_json(context.out, found)
    else:
        for name, each in found.items():
            write_lines(context.out, [name, *(f"  {key}: {told(value)}" for key, value in
                                              each.items())])  # fmt: skip
    return Exit.FAILED if any("errors" in each for each in found.values()) else Exit.DONE


def told(value: Any) -> str:
    """Return a value in one line."""
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)
