"""`moldau connect start --workers`: several workers of one group under a supervisor."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from moldau.connect.commands.worker import workers
from moldau.runtime import process_figures
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import children_of, wait_until
from tests.connect.rest.connect_command import connect
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, content, every, lines, numbers
from tests.connect.worker.task_audit import owners

pytestmark = pytest.mark.real

QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}


def test_auto_leaves_one_core_in_four_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, count in ((1, 1), (2, 2), (4, 3), (8, 6)):
        monkeypatch.setattr(process_figures, "core_count", lambda cores=cores: cores)
        assert workers("auto") == count
    assert workers("7") == 7
    for text in ("0", "1001", "two"):
        with pytest.raises(ArgumentTypeError, match="auto"):
            workers(text)


def test_workers_share_tasks_and_a_killed_one_starts_again(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    packages, out = tmp_path / "packages", tmp_path / "out"
    packages.mkdir()
    scene = Scene(moldau_broker, moldau_topic, install(packages))
    with scene.worker("--workers", "2", **QUICK) as first:
        supervisor = first.process.pid
        wait_until(lambda: len(children_of(supervisor)) == 2, "two workers run")
        first.create("numbers", {**numbers(scene.name, 300, pause_ms="20"), "tasks.max": "2"})
        first.create(scene.sink, lines(scene.name, out))
        wait_until(lambda: len(owners(first, "numbers", scene.sink)) == 2, "both have tasks")
        mine = int(first.url.rpartition(":")[2])
        killed = next(pid for pid in children_of(supervisor) if not listens(pid, mine))

        os.kill(killed, signal.SIGKILL)

        wait_until(lambda: len(set(children_of(supervisor)) - {killed}) == 2, "two run again")
        wanted = every(300) | {f"1:{number}" for number in range(300)}
        wait_until(lambda: set(content(out)) >= wanted, "nothing is lost", 120)
        left = children_of(supervisor)
        assert first.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in left), "they end with it"


def listens(pid: int, port: int) -> bool:
    """Whether the process has a socket that listens at this port."""
    tables = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    inodes = {row.split()[9] for row in tables if row.split()[1].endswith(f":{port:04X}")}
    links = (os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir())
    return any(link.strip("socket:[]") in inodes for link in links)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--set", "rest.advertised.port=80"), "rest.advertised.port"),
        (("--listen", "127.0.0.1:65535"), "ports"),
    ],
)
def test_what_several_workers_cannot_have_is_refused(words: tuple[str, ...], cause: str) -> None:
    done = connect("start", "--bootstrap", "127.0.0.1:1", "--workers", "2", *words)
    assert (done.returncode, cause in done.stderr) == (2, True)


def test_a_worker_that_refuses_its_settings_ends_all() -> None:
    words = ("--bootstrap", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--workers", "2")
    done = connect("start", *words, "--set", "task.isolation=none")
    assert done.returncode in (1, 2)
    assert "a worker cannot run" in done.stderr
