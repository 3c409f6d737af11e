"""Run Spark Declarative Pipelines: `python -m moldau.spark.declarative run --spec FILE`.

This is PySpark's own `spark-pipelines`, in a process that ends when its parent does, as a part of a
`moldau pipeline` has to; its Java ends with it. Its Spark Connect server gets a free port: that of
PySpark is the same one for all programs of a machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final

from moldau.errors import ConfigError
from moldau.runtime.children import process_environment
from moldau.runtime.real_files import RealFiles
from moldau.runtime.signals import Terminated, interrupted_by_sigterm
from moldau.spark.job_java import leash_java

MODULE: Final = "moldau.spark.declarative"
PORT: Final = "_MOLDAU_CONNECT_PORT"
"""The environment variable with the port of the server that this process starts."""
SPEC_FILES: Final = ("spark-pipeline.yml", "spark-pipeline.yaml")
_TERMINATED: Final = 143


def find_spec_file(folder: str) -> str:
    """Return the path of the spec in a folder. Raises ConfigError if there is none, or are two."""
    files = RealFiles()
    found = [path for name in SPEC_FILES if files.exists(path := f"{folder.rstrip('/')}/{name}")]
    if len(found) != 1:
        what = "both specs" if found else "no spec"
        raise ConfigError(f"the folder has {what}: it needs one {SPEC_FILES[0]}", folder=folder)
    return found[0]


def need_pipelines() -> None:
    """Raise ConfigError if this PySpark has no declarative pipelines."""
    if find_spec("pyspark.pipelines") is None:
        raise ConfigError("only PySpark 4.1 and newer has them: pip install 'pyspark>=4.1'")


def main() -> None:
    """Run `spark-pipelines` with the arguments of the command line."""
    leash_java()
    from pyspark.errors import PySparkException
    from pyspark.pipelines import cli
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    port = process_environment().get(PORT)
    if port is not None:
        DefaultChannelBuilder.default_port = staticmethod(lambda: int(port))
    causes: list[str] = []
    show = cli.handle_pipeline_events
    cli.handle_pipeline_events = lambda events: show(_noting(events, causes))
    try:
        with interrupted_by_sigterm():
            cli.main()
    except Terminated:
        sys.exit(_TERMINATED)
    except PySparkException as error:
        lines = [str(error).strip().partition("\n")[0], *causes[-1:]]
        sys.stderr.write(f"moldau: {' '.join(lines)}\n")
        sys.exit(1)


def _noting(events: Iterator[dict[str, Any]], causes: list[str]) -> Iterator[dict[str, Any]]:
    """Pass events of a run on, and note the errors of its flows: the exception does not have
    them."""
    for each in events:
        if "pipeline_event_result" in each:
            text = str(each["pipeline_event_result"].event.message)
            name, found, cause = text.partition("\nError: ")
            if found:
                causes.append(f"{name} {cause.partition(chr(10))[0]}")
        yield each


if __name__ == "__main__":
    main()
