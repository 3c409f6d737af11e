"""A forked command is like one of an interpreter of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import broker
from tests.conformance.broker import MoldauBroker
from tests.conformance.forking import Forker, Process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="packets with descriptors")
FORKER = Forker()
WORDS = [["version"], ["help"], ["topic", "list", "--nonsense"], ["log", "dump", "nothing.log"]]


def ended(process: Process) -> tuple[int, str]:
    output = process.stdout.read()
    process.stdout.close()
    return process.wait(60), output


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_command_has_the_output_the_errors_and_the_exit_code(
    words: list[str], tmp_path: Path
) -> None:
    environment = {**os.environ, "COLUMNS": "60"}
    with (tmp_path / "errors").open("wb") as errors:
        forked = ended(FORKER.start(words, errors.fileno(), environment, tmp_path))
    command = [sys.executable, "-m", "moldau.cli", *words]
    plain = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path
    )
    assert forked == (plain.returncode, plain.stdout)
    assert (tmp_path / "errors").read_text() == plain.stderr


def test_a_broker_is_killed_starts_again_and_stops(tmp_path: Path) -> None:
    broker = MoldauBroker(tmp_path)
    broker.start()
    port, process = broker.port, broker._process
    assert process is not None
    assert Path(f"/proc/{process.pid}/cwd").resolve() == tmp_path
    broker.kill()
    assert process.returncode == -signal.SIGKILL

    broker.start()
    assert broker.port == port
    broker.stop()


def test_two_run_side_by_side(tmp_path: Path) -> None:
    with MoldauBroker(tmp_path / "one") as one, MoldauBroker(tmp_path / "two") as two:
        assert one.port != two.port


def test_what_changes_python_needs_an_interpreter() -> None:
    assert FORKER.can_start({**os.environ, "MOLDAU_X": "1"})
    assert not FORKER.can_start({**os.environ, "PYTHONPATH": "/planted"})


def test_brokers_start_by_themselves_once_the_process_that_forks_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forker = Forker()
    with (tmp_path / "errors").open("wb") as errors:
        assert ended(forker.start(["version"], errors.fileno(), os.environ, tmp_path))[0] == 0
        assert forker.server is not None
        forker.server.kill()
        forker.server.wait()
        monkeypatch.setattr(broker, "_FORKER", forker)
        assert forker.can_start(os.environ), "it has not noticed"
        with MoldauBroker(tmp_path / "one") as one, MoldauBroker(tmp_path / "two") as two:
            assert all(isinstance(each._process, subprocess.Popen) for each in (one, two))
        assert not forker.can_start(os.environ)
        with pytest.raises(ChildProcessError):
            forker.start(["version"], errors.fileno(), os.environ, tmp_path)
