"""Run the user's PySpark job with the data source and a suitable Java: `moldau spark`.

The actions are `run`, `pipelines`, `submit` and `warm`. The first three replace this process by the
job, so signals, output and exit code are the job's own. Importing this module is cheap.
"""

from __future__ import annotations

import shlex
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from moldau.cli.command import Context, UsageError
from moldau.spark.summaries import SUMMARIES

_MASTER: Final = "local[*]"
_SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"
_SHELL: Final = "pyspark-shell"
"""PySpark requires this as the last word of PYSPARK_SUBMIT_ARGS."""
_RUNNER: Final = "moldau.spark.leashed"
"""Java ends with the job, and a job that is a part of a pipeline ends with that."""
_NO_PREFIX: Final = "\0"


class SparkCommand:
    """The command `moldau spark`. An action imports what it needs only when it runs."""

    summary = SUMMARIES["spark"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        text = "run a script, in which SparkSession.builder.getOrCreate() has the data source"
        run = actions.add_parser("run", help=text, description=f"R{text[1:]}.")
        _add_session(run)
        run.add_argument("job", metavar="JOB.py", help="the script")
        run.add_argument(
            "arguments", nargs=REMAINDER, metavar="ARGS", help="the script's arguments"
        )
        run.set_defaults(act=_run)
        text = "run a folder of Spark Declarative Pipelines, as spark-pipelines run does"
        pipelines = actions.add_parser("pipelines", help=text, description=f"R{text[1:]}.")
        _add_session(pipelines)
        pipelines.add_argument("job", metavar="FOLDER", help="the folder of spark-pipeline.yml")
        pipelines.add_argument(
            "arguments", nargs=REMAINDER, metavar="ARGS", help="arguments of spark-pipelines run"
        )
        pipelines.set_defaults(act=_pipelines)
        text = "call the spark-submit of SPARK_HOME or of PySpark, with its own options"
        submit = actions.add_parser(
            "submit", help=text, description=f"C{text[1:]}.", add_help=False,
            prefix_chars=_NO_PREFIX,
        )  # fmt: skip
        submit.add_argument("arguments", nargs="*", metavar="[OPTIONS] JOB.py [ARGS]")
        submit.set_defaults(act=_submit)
        text = "make Spark start faster: archive its classes for the Java of this machine"
        warm = actions.add_parser("warm", help=text, description=f"M{text[1:]}.")
        warm.set_defaults(act=_warm)
        check = actions.add_parser("check-sql")  # without help: `moldau pipeline lint` calls it
        check.add_argument("queries", metavar="JSON")
        check.set_defaults(act=_check_sql)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        return int(arguments.act(arguments, context))


def _add_session(parser: ArgumentParser) -> None:
    parser.add_argument("--master", metavar="URL", help=f"Spark's master; default: {_MASTER}")
    parser.add_argument("--remote", metavar="URL", help="a Spark Connect server: sc://host:15002")
    parser.add_argument("--name", help="the application's name; default: the script's name")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a Spark setting"
    )


def _run(arguments: Namespace, context: Context) -> int:
    from moldau.runtime.real_files import RealFiles

    if not RealFiles().exists(arguments.job):
        raise UsageError(f"the script {arguments.job} does not exist")
    variables = _session_variables(arguments, context, {})
    words = [sys.executable, "-m", _RUNNER, arguments.job, *arguments.arguments]
    return _replace_process(words, variables, context)


def _pipelines(arguments: Namespace, context: Context) -> int:
    from moldau.runtime.node_processes import free_ports
    from moldau.spark.declarative import MODULE, PORT, find_spec_file, need_pipelines
    from moldau.spark.session import need_connect

    spec = find_spec_file(arguments.job)
    need_connect()
    need_pipelines()
    port = str(free_ports(1)[0])
    server = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
    }
    variables = _session_variables(arguments, context, server)
    if arguments.remote is None:
        variables |= {
            "SPARK_API_MODE": "connect",
            "MASTER": arguments.master or _MASTER,
            PORT: port,
        }
    words = [sys.executable, "-m", MODULE, "run", "--spec", spec, *arguments.arguments]
    return _replace_process(words, variables, context)


def _session_variables(
    arguments: Namespace, context: Context, defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment in which `SparkSession.builder.getOrCreate()` makes the session of
    these arguments. `defaults` are settings of Spark that `--conf` overrides."""
    from moldau.spark.reach import check_master, check_remote
    from moldau.spark.session import DEFAULTS, need_connect

    settings = _settings(arguments.conf)
    variables = _with_python(context.environment)
    if arguments.remote is not None:
        if arguments.master is not None or arguments.name is not None or settings:
            raise UsageError(
                "--remote cannot be used with --master, --name and --conf, because the server "
                "decides about them: leave them out, or set them in the script"
            )
        need_connect()
        check_remote(arguments.remote)
        variables["SPARK_REMOTE"] = arguments.remote
    else:
        master = arguments.master or _MASTER
        check_master(master)
        variables |= _with_java(context.environment)
        options = {"master": master, "name": arguments.name or arguments.job.rpartition("/")[2]}
        variables[_SUBMIT_ARGS] = submit_args(
            variables.get(_SUBMIT_ARGS, ""), options, {**DEFAULTS, **defaults, **settings}
        )
    return variables


def _submit(arguments: Namespace, context: Context) -> int:
    from moldau.spark.reach import check_master, check_remote
    from moldau.spark.submit import find_submit, home_of, submit_options

    if not arguments.arguments:
        raise UsageError("name a script: moldau spark submit [OPTIONS] JOB.py [ARGS]")
    variables = _with_python(context.environment)
    options = submit_options(arguments.arguments)
    if "--master" in options:
        check_master(options["--master"])
    if "--remote" in options:
        check_remote(options["--remote"])
    variables |= _with_java(context.environment)
    submit = find_submit(context.environment.get("SPARK_HOME"))
    variables["SPARK_HOME"] = home_of(submit)
    return _replace_process([submit, *arguments.arguments], variables, context)


def _warm(arguments: Namespace, context: Context) -> int:
    from moldau.spark.class_archive import make_archive
    from moldau.spark.java import find_java
    from moldau.spark.session import need_spark

    need_spark()
    from moldau.spark.job_java import leash_java
    from moldau.spark.warming import run_job  # needs Spark

    leash_java()
    path, size = make_archive(find_java(context.environment), context.environment, run_job)
    context.out.write(f"Spark will use this archive of its classes: {path} ({size >> 20} MiB)\n")
    return 0


def _check_sql(arguments: Namespace, context: Context) -> int:
    from moldau.cli.output import write_json
    from moldau.spark.job_java import leash_java
    from moldau.spark.session import need_spark
    from moldau.spark.sql_check import check_queries

    need_spark()
    leash_java()
    write_json(context.out, check_queries(arguments.queries))
    return 0


def submit_args(given: str, options: Mapping[str, str], settings: Mapping[str, str]) -> str:
    """Return PYSPARK_SUBMIT_ARGS: the user's words in `given`, then these options and settings.

    The later ones win."""
    words = [each for each in shlex.split(given) if each != _SHELL]
    for name, text in options.items():
        words += [f"--{name}", text]
    for name, text in settings.items():
        words += ["--conf", f"{name}={text}"]
    return shlex.join([*words, _SHELL])


def _settings(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in given:
        name, separator, text = each.partition("=")
        if not separator or not name.startswith("spark."):
            raise UsageError(f"--conf {each}: write spark.NAME=VALUE")
        found[name] = text
    return found


def _with_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Make Spark's workers run this Python, unless the environment names another one."""
    from moldau.spark.session import need_spark

    need_spark()
    own = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**own, **environment}


def _with_java(environment: Mapping[str, str]) -> dict[str, str]:
    from moldau.spark.class_archive import with_archive
    from moldau.spark.java import find_java

    java = find_java(environment)
    return {"JAVA_HOME": java.home, **with_archive(java, environment)}


def _replace_process(
    words: Sequence[str], variables: Mapping[str, str], context: Context
) -> NoReturn:
    from moldau.runtime.places import become

    context.out.flush()
    context.err.flush()
    become(words, variables)


command = SparkCommand()
