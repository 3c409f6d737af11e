"""`moldau streams run --engine spark`: an app on a Spark session of this process."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import client_settings
from moldau.errors import ConfigError
from moldau.plugins import PluginError, installed_plugins
from moldau.plugins.extras import install_command
from moldau.streams.contracts import SPARK_SESSIONS
from moldau.streams.problems import StreamsError

if TYPE_CHECKING:
    from moldau.streams.commands.given_app import App

_EMBEDDED_ONLY: Final = ("state", "listen", "worker", "accept_changes")


def run_on_spark(app: App, arguments: Namespace, context: Context) -> int:
    """Run the app until a query fails or a signal, and return the exit code."""
    from moldau.streams.spark.engine import SparkApp
    from moldau.streams.spark.limits import check
    from moldau.streams.worker.settings import EXACTLY_ONCE, processing_guarantee

    for name in _EMBEDDED_ONLY:
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} has no effect with --engine spark: leave it out")
    if arguments.workers > 1:
        raise UsageError("--workers has no effect with --engine spark: Spark has executors")
    if not arguments.checkpoint:
        raise UsageError("--engine spark needs --checkpoint DIR, which all executors reach")
    plan = app.plan()
    check(plan)
    given: dict[str, object] = dict(client_settings(arguments, context, {}))
    given.pop("client.id", None)
    given.setdefault(processing_guarantee.name, getattr(app, "guarantee", EXACTLY_ONCE))
    session = _session(plan.app, arguments.master)
    try:
        with SparkApp(plan, session, arguments.checkpoint, given) as running:
            running.start()
            if not arguments.json:
                context.out.write(f"streams app {plan.app} starts on Spark; Ctrl-C stops it\n")
                context.out.flush()
            running.wait()
    except KeyboardInterrupt:
        return Exit.DONE
    finally:
        session.stop()
    return Exit.DONE


def _session(name: str, master: str | None) -> Any:
    """Return a Spark session. Raise StreamsError if Spark or Java is missing, or if it does not
    start."""
    try:
        new_session: Any = installed_plugins().load(SPARK_SESSIONS, "new")
    except PluginError:
        raise StreamsError(f"Spark is not installed: {install_command('spark')}") from None
    try:
        return new_session(name, master=master)
    except ConfigError as error:
        raise StreamsError(str(error)) from None
