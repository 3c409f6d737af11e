"""`moldau streams run --engine spark`: an app on a Spark session of this process."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import client_settings
from moldau.plugins.extras import install_command
from moldau.streams.problems import StreamsError

if TYPE_CHECKING:
    from moldau.streams.commands.given_app import App

_NO_JAVA: Final = (
    "Spark needs Java 17 or newer, and it does not start: install one (Debian and Ubuntu: apt "
    "install openjdk-17-jre-headless) and set JAVA_HOME"
)
_EMBEDDED_ONLY: Final = ("state", "listen", "worker", "accept_changes")


def run_on_spark(app: App, arguments: Namespace, context: Context) -> int:
    """Run the app until a query fails or a signal, and return the exit code."""
    from moldau.streams.spark.engine import SparkApp
    from moldau.streams.spark.limits import check

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
    session = _session(plan.app, arguments.master, context.environment)
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


def _session(name: str, master: str | None, environment: Mapping[str, str]) -> Any:
    """Return a Spark session. Raise StreamsError if Spark or Java is missing, or if it does not
    start."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise StreamsError(f"Spark is not installed: {install_command('spark')}") from None
    # Java and executors start the Python of this variable, which must have what the app needs.
    if isinstance(environment, MutableMapping):
        environment.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    builder = (
        builder.appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if master is not None:
        builder = builder.master(master)
    try:
        session = builder.getOrCreate()
    except (PySparkException, FileNotFoundError):
        raise StreamsError(_NO_JAVA) from None
    except Py4JError:
        raise StreamsError(
            f"Spark does not start with master={master or 'of spark-submit'}: see its lines above; "
            "correct --master, or start that master"
        ) from None
    session.sparkContext.setLogLevel("ERROR")
    return session
