"""The Java of a job ends with the job, whatever ends that, and as early as that may come.

The Java here is one at its worst: it neither reads its standard input nor ends on SIGTERM, as one
does whose main thread has ended while PySpark waited for it.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from moldau.runtime.signals import LEASH, LEASH_ON_STDIN

pytest.importorskip("pyspark", reason="make demo installs it")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends orphans"),
]

PATIENCE_S: Final = 60.0
JAVA: Final = """#!/bin/sh
case "$*" in
  *-version) echo 'openjdk version "17.0.1"' >&2; exit;;
  *org.apache.spark.launcher.Main*) printf '\\0\\n%s\\0' "$0"; exit;;
esac
exec {python} -c '
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("{pipe}", "w") as told:
    told.write(str(os.getpid()))
time.sleep(1000)
'
"""
SCRIPT: Final = """
from pyspark.sql import SparkSession
SparkSession.builder{more}.getOrCreate()
"""
SPEC: Final = """
name: orders
libraries:
  - glob: {include: transformations/**}
storage: file:///nonexistent/storage
"""
_SPARK: Final = {"SPARK_API_MODE": "connect", "MASTER": "local[1]"}
Start = Callable[[Path], list[str]]


def script(more: str) -> Start:
    def words(folder: Path) -> list[str]:
        (folder / "job.py").write_text(SCRIPT.format(more=more))
        return ["moldau.spark.leashed", "job.py"]

    return words


def in_terminal(folder: Path) -> list[str]:
    script("")(folder)
    return ["moldau.cli", "spark", "run", "--master", "local[1]", "job.py"]


def declarative(folder: Path) -> list[str]:
    (folder / "spark-pipeline.yml").write_text(SPEC)
    (folder / "transformations").mkdir()
    return ["moldau.spark.declarative", "run", "--spec", "spark-pipeline.yml"]


JOBS: Final[dict[str, Start]] = {
    "a session": script('.master("local[1]")'),
    "a local Connect server": script('.remote("local[1]")'),
    "declarative pipelines": declarative,
    "a terminal": in_terminal,
}
ENDS: Final[dict[str, Callable[[subprocess.Popen[bytes]], object]]] = {
    "SIGTERM": lambda job: job.terminate(),
    "SIGINT": lambda job: job.send_signal(signal.SIGINT),
    "SIGKILL": lambda job: job.kill(),
    "its supervisor has ended": lambda job: job.stdin and job.stdin.close(),
}


@contextmanager
def java_of(folder: Path, words: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a job, and wait for its Java. Yield the job, and a descriptor of Java's process."""
    pipe, java = folder / "pipe", folder / "java" / "bin" / "java"
    os.mkfifo(pipe)
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(python=shlex.quote(sys.executable), pipe=pipe))
    java.chmod(0o755)
    job = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            **({} if words[0] == "moldau.cli" else {LEASH: LEASH_ON_STDIN}),
            "JAVA_HOME": str(java.parents[1]),
            **(_SPARK if "declarative" in words[0] else {}),
        },
    )
    try:
        source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        poll = select.poll()
        poll.register(source, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), "Java was not started"
        pid = int(os.read(source, 100))
        os.close(source)
        process = os.pidfd_open(pid)
        try:
            yield job, process
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
            os.close(process)
    finally:
        job.kill()
        job.wait()
        if job.stdin is not None and not job.stdin.closed:
            job.stdin.close()


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        (kind, end)
        for kind in JOBS
        for end in ENDS
        if (kind, end) != ("a terminal", "its supervisor has ended")
    ],
)
def test_java_ends_with_its_job_while_it_starts(kind: str, end: str, tmp_path: Path) -> None:
    if kind not in ("a session", "a terminal"):
        pytest.importorskip("grpc_status", reason="what Spark Connect needs")
    with java_of(tmp_path, JOBS[kind](tmp_path)) as (job, java):
        ENDS[end](job)
        assert select.select([java], [], [], PATIENCE_S)[0], "Java is left behind"


@pytest.mark.parametrize("text", ["def fail():\n    raise ValueError('no')\nfail()\n", "x = (\n"])
def test_a_script_that_fails_has_the_traceback_of_python(text: str, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(text)

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, *words, "job.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        return done.returncode, done.stderr.replace(f"{tmp_path}/", "")

    code, said = run("-m", "moldau.spark.leashed")

    assert (code, said) == run()
    assert code == 1
    assert "job.py" in said


JOB: Final = """
import pickle, sys, threading

class Order:
    pass

def later():
    threading.main_thread().join()
    pickle.loads(pickle.dumps(Order()))
    print(Order.__module__, sys.modules["__main__"].Order is Order)

print(__name__, __file__, sys.path[0], sys.argv, __spec__, type(__loader__).__name__)
threading.Thread(target=later).start()
"""


@pytest.mark.parametrize("safe", ["", "1"])
def test_a_script_has_the_names_paths_and_threads_of_python(safe: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "job.py").write_text(JOB)
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "job.py")

    def run(*words: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, *words, "link.py", "--day", "1"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONSAFEPATH": safe},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    said = run("-m", "moldau.spark.leashed")

    assert said == run()
    assert f"{tmp_path}/link.py" in said
    assert "__main__ True" in said
