"""The number of workers changes while an app runs: every record counts once, and no session of a
worker that ended has to be waited for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Producer
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.connect.processes import children_of, wait_until
from tests.streams.real.running import ROOT, App

pytestmark = [pytest.mark.real, pytest.mark.deep]

PIECE: Final = 20
PIECE_S: Final = 0.05
LISTENS: Final = "queries at http://"
SESSION_S: Final = 45
"""How long a worker is missed that has not left its group, by default."""


def streams(app: App, action: str, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command on the app."""
    command = [sys.executable, "-m", "moldau.cli", "streams", action]
    command += [f"tests.streams.real.apps:{app.which}", *words, "-b", app.servers]
    done = subprocess.run(  # noqa: S603 - our own command
        command, env={**os.environ, "APP": app.name}, cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@contextmanager
def load(app: App) -> Iterator[list[str]]:
    """Write lines all the time, with ten keys. Yield those that are acknowledged."""
    written: list[str] = []
    stop = threading.Event()

    def write() -> None:
        with Producer(bootstrap_servers=app.servers) as producer:
            while not stop.wait(PIECE_S):
                lines = [f"line {len(written) + at}" for at in range(PIECE)]
                producer.send_many(f"{app.name}-lines", [each.encode() for each in lines])
                producer.flush()
                written.extend(lines)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()


def change(app: App, count: int) -> None:
    begun = time.monotonic()
    code, out, err = streams(app, "workers", str(count))
    assert code == 0, (out, err, app.log.read_text()[-3000:])
    assert out.endswith(f"app {app.name} has {count} worker{'s' if count > 1 else ''}\n")
    assert time.monotonic() - begun < SESSION_S - 10
    code, out, _ = streams(app, "status", "--json")
    found: dict[str, Any] = json.loads(out)
    assert found["workers"] == count
    assert len({each["worker"] for each in found["tasks"]}) <= count


def goes_on(app: App) -> None:
    """Whether the workers of now process and commit what comes."""
    before = len(app.committed("out"))
    wait_until(lambda: len(app.committed("out")) > before + 5 * PIECE, "nothing comes out", 120)


def names(app: App) -> dict[str, str]:
    """The name of each worker, by its number."""
    found = (app.state / app.name).glob("*/member")
    return {each.parent.name: each.read_text() for each in found}


@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_two_workers_become_four_and_one_and_two_again_under_load(
    moldau: MoldauBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    service = tmp_path / "service"
    service.touch()
    monkeypatch.setenv("SERVICE", str(service))
    settings = ("commit.interval.ms=100", f"group.protocol={protocol}")
    name = f"{protocol}-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, "serving", 4, settings).make()
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(f"{name}-counts", 4, 1))
    process = app.start("--workers", "2", "--listen", "127.0.0.1:0")
    with load(app) as written:
        goes_on(app)
        first = names(app)
        assert sorted(first) == ["0", "1"]
        change(app, 4)
        goes_on(app)
        four = names(app)
        assert sorted(four) == ["0", "1", "2", "3"]
        listening = app.log.read_text().count(LISTENS)
        os.kill(children_of(process.pid)[-1], signal.SIGKILL)
        wait_until(lambda: "(signal 9); it starts again" in app.log.read_text(), "it runs", 30)
        wait_until(lambda: len(children_of(process.pid)) == 4, "it does not start again", 30)
        wait_until(lambda: app.log.read_text().count(LISTENS) > listening, "it does not listen", 30)
        goes_on(app)
        change(app, 1)
        goes_on(app)
        assert len(children_of(process.pid)) == 1
        assert app.log.read_text().count("has stopped (exit code 0)") == 3
        change(app, 2)
        for action, done in (("pause", "paused"), ("resume", "resumed")):
            code, out, _ = streams(app, action)
            assert (code, out.count(done)) == (0, 2), out
        goes_on(app)
        process.send_signal(signal.SIGTTIN)
        wait_until(lambda: len(children_of(process.pid)) == 3, "SIGTTIN adds no worker")
        goes_on(app)
        process.send_signal(signal.SIGTTOU)
        wait_until(lambda: len(children_of(process.pid)) == 2, "SIGTTOU ends no worker")
        goes_on(app)
    wait_until(lambda: len(app.committed("out")) >= len(written), "lines are missing", 120)
    last = Counter(line[-1] for line in written)
    app.read(lambda found: found == dict(last), topic="counts")  # of every key, before the stop
    app.stop(process)
    assert names(app) == four, "a number that comes back has the directory that it had"
    assert sorted(app.committed("out")) == sorted(written)
    assert sorted(app.committed("largest")) == sorted(written)
    ends = app.read(lambda found: found == dict(last), topic="counts")
    assert ends == dict(last)
    assert re.findall(r"killed|has ended .*;", app.log.read_text()) == ["has ended (signal 9);"]


def has(word: str) -> Callable[[dict[Any, Any]], bool]:
    return lambda found: word in found


def test_an_app_without_a_supervisor_or_an_address_is_named(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    app = App(moldau.bootstrap_servers, f"alone-{tmp_path.name}", tmp_path).make()
    code, _, err = streams(app, "workers", "2")
    assert (code, "none of its workers has run" in err) == (2, True)
    for word, listen, reason in (
        ("one", ("--listen", "127.0.0.1:0"), "start it with --workers 2 or more"),
        ("two", (), "start it with --listen"),
    ):
        process = app.start(*listen)
        app.write(word)
        app.read(has(word))
        code, out, err = streams(app, "workers", "2")
        assert (code, reason in out) == (1, True), (out, err)
        app.stop(process)
    code, _, err = streams(app, "workers", "2")
    assert (code, "none of its workers runs" in err) == (2, True)
