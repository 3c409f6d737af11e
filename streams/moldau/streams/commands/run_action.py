"""`moldau streams run`: an app in this process, or in several that this one keeps alive."""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from typing import TYPE_CHECKING

from moldau.cli.command import Context, Exit
from moldau.cli.commands.cluster_connection import client_settings
from moldau.streams.commands.given_app import load_app

if TYPE_CHECKING:
    from moldau.runtime import Runtime
    from moldau.streams.plan.plan import Plan
    from moldau.streams.worker.settings import AppSettings


def run_app(arguments: Namespace, context: Context) -> int:
    """Until a signal."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.process import raise_open_files, tune_allocator
    from moldau.streams.running import checked

    plan = load_app(arguments.app, absolute_path(".")).plan()
    given: dict[str, object] = dict(client_settings(arguments, context, {}))
    given.pop("client.id", None)
    if arguments.state is not None:
        given["state.dir"] = arguments.state
    settings = checked(given)
    raise_open_files()
    if arguments.workers > 1 and arguments.worker is None:
        return _supervise(arguments, context)
    tune_allocator()
    return _work(arguments, context, plan, settings)


def _work(arguments: Namespace, context: Context, plan: Plan, settings: AppSettings) -> int:
    from moldau.runtime.real import run
    from moldau.streams.running import Place, run_plan, until_stopped
    from moldau.streams.supervisor.shell import unless_orphaned

    index = arguments.worker or 0

    async def main(runtime: Runtime) -> None:
        _log_to(runtime, arguments, context)
        work = run_plan(plan, settings, runtime, Place(index))
        if arguments.worker is not None:
            work = unless_orphaned(work, context.source)
        elif not arguments.json:
            _announce(plan, context)
        await until_stopped(work)

    run(main, node=f"{plan.app}-{index}")
    return Exit.DONE


def _supervise(arguments: Namespace, context: Context) -> int:
    from moldau.runtime.real import run
    from moldau.streams.running import until_stopped
    from moldau.streams.supervisor.shell import Supervisor

    def command(index: int) -> list[str]:
        return [sys.executable, "-m", "moldau.cli", *_words(arguments), "--worker", str(index)]

    async def main(runtime: Runtime) -> int:
        _log_to(runtime, arguments, context)
        supervisor = Supervisor(command, arguments.workers, runtime)
        await until_stopped(supervisor.run())
        return supervisor.code

    return run(main, node="supervisor")


def _words(arguments: Namespace) -> list[str]:
    """The command line of a worker: that of the supervisor."""
    words = ["streams", "run", arguments.app, "--workers", str(arguments.workers)]
    for name, value in (
        ("--bootstrap", arguments.bootstrap),
        ("--command-config", arguments.command_config),
        ("--state", arguments.state),
        ("--log-level", arguments.log_level),
    ):
        if value is not None:
            words += [name, value]
    for each in arguments.client_settings:
        words += ["--set", each]
    for name, is_given in (("--log-json", arguments.log_json), ("--debug", arguments.debug)):
        if is_given:
            words.append(name)
    return words


def _announce(plan: Plan, context: Context) -> None:
    with suppress(BrokenPipeError):
        context.out.write(f"streams app {plan.app} runs; Ctrl-C commits and stops it\n")
        context.out.flush()


def _log_to(runtime: Runtime, arguments: Namespace, context: Context) -> None:
    """Our lines, and those that asyncio and other libraries write."""
    import logging

    from moldau.logging import Loggers, parse_level
    from moldau.logging.stdlib import StandardLines

    level = parse_level(arguments.log_level)
    loggers = Loggers(runtime.clock, context.err.write, json=arguments.log_json, level=level)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers)]
    root.setLevel(logging.WARNING)
    logging.getLogger("moldau.streams").setLevel(logging.INFO)
