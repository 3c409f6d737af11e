"""`moldau` as a process of its own, for what one at a terminal does to it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.cli.groups import Cluster

# Ctrl-C is what it is in a terminal: a shell that starts the tests in the background has them, and
# so this process, ignore it.
_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from moldau.cli import main; exit(main())"
)


@contextmanager
def running(cluster: Cluster, *words: str, code: int = 0) -> Iterator[subprocess.Popen[str]]:
    """The command while it runs; when the test is done with it, it has to end with that code."""
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", _MAIN, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MOLDAU_BOOTSTRAP": cluster.bootstrap_servers},
    ) as process:
        try:
            yield process
            process.wait(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code


def line_of(stream: IO[str] | None) -> str:
    """The next line, as soon as it is there."""
    assert stream is not None
    return stream.readline()
