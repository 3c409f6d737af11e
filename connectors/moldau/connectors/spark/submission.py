"""`spark.deploy=submit`: `spark-submit` starts the runner as a program, in client mode.

spark-submit gives a program no standard input and mixes its output with Java's. So messages go
through a socket in a directory that only this user may enter; the runner connects to it. The
settings are in a file there and not in the command, because other users can see commands.

The process is Java, and the runner is its child. When the runner ends, Java ends.

The worker's directory is in the PYTHONPATH of the runner and of Spark's tasks. For the other values
of `spark.deploy` Python itself looks there, so `transforms.python` finds the same modules.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from moldau.connectors.spark.base_config import SparkConfig
from moldau.runtime.children import Gate, process_environment
from moldau.spark.session import prepare_environment

_SOCKET: Final = "sock"
_PROGRAM: Final = """from moldau.connectors.spark.runner import main

main({path!r})
"""
_PYTHON_PATH: Final = "PYTHONPATH"
_TASK_PYTHON_PATH: Final = f"spark.executorEnv.{_PYTHON_PATH}"
_ACCEPT_S: Final = 0.5


class Submission:
    """The transport of a runner that `spark-submit` starts: a Unix socket."""

    def __init__(self, submit: str, config: SparkConfig, connector: str) -> None:
        self._submit = Path(submit)
        self._config = config
        self._connector = connector
        self._server = socket.socket(socket.AF_UNIX)
        self._connection: socket.socket | None = None
        self._gate = Gate()

    def start(self) -> subprocess.Popen[bytes]:
        prepare_environment()
        self._folder = Path(tempfile.mkdtemp(prefix="moldau-spark-"))
        path = str(self._folder / _SOCKET)
        self._server.bind(path)
        self._server.listen(1)
        self._server.settimeout(_ACCEPT_S)
        program = self._folder / "runner.py"
        program.write_text(_PROGRAM.format(path=path), encoding="utf-8")
        settings = self._folder / "spark.conf"
        environment = process_environment()
        python_path = _python_path(environment)
        conf = {_TASK_PYTHON_PATH: python_path, **self._config.spark_conf}
        settings.write_text(java_properties(conf), encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - the user's own Spark
            [
                str(self._submit),
                "--master", self._config.master,
                "--deploy-mode", "client",
                "--name", f"moldau-{self._connector}",
                "--properties-file", str(settings),
                "--load-spark-defaults",
                str(program),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **environment,
                "SPARK_HOME": str(self._submit.parents[1]),
                _PYTHON_PATH: python_path,
            },
            start_new_session=True,
        )  # fmt: skip
        return self._process

    def lines(self) -> Iterator[bytes]:
        connection = self._connection = self._accept()
        if connection is None:
            return
        with connection, connection.makefile("rb") as source:
            self._gate.open(connection.sendall)
            with suppress(OSError):
                yield from source

    def _accept(self) -> socket.socket | None:
        """Wait for the runner's connection. Return None if spark-submit ends without one."""
        while True:
            try:
                return self._server.accept()[0]
            except TimeoutError:
                if self._process.poll() is not None:
                    return None
            except OSError:  # `close` has closed the socket
                return None

    def write(self, line: bytes) -> None:
        with suppress(OSError):
            self._gate.send(line + b"\n")

    def close(self) -> None:
        self._server.close()
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
        shutil.rmtree(self._folder, ignore_errors=True)


def _python_path(environment: Mapping[str, str]) -> str:
    """Return PYTHONPATH with this process's directory in front."""
    return ":".join(filter(None, [str(Path.cwd()), environment.get(_PYTHON_PATH)]))


def java_properties(conf: Mapping[str, str]) -> str:
    """Return the settings in the format of a Java properties file."""

    def escape(text: str) -> str:
        for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r")):
            text = text.replace(plain, escaped)
        return text

    return "".join(f"{name}={escape(text)}\n" for name, text in sorted(conf.items()))
