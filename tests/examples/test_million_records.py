"""`make demo-broker`: a broker starts, records are sent and read, nothing is left behind."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_the_demo_sends_and_reads_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.million_records", "--count", "20000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert "sent 20,000 records" in told
    assert "read 20,000 records" in told
    assert list(tmp_path.iterdir()) == []


# Signals mean what they do at a terminal, whoever started the tests and ignores them.
_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "from examples.million_records.__main__ import main; exit(main(['--count', '100000000']))"
)


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("heard", ["    bootstrap", "$ moldau produce"])
def test_it_leaves_nothing_behind_when_it_is_interrupted(
    number: signal.Signals, heard: str, tmp_path: Path
) -> None:
    process = subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-c", _MAIN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if line.startswith(heard):
            break
    else:
        pytest.fail(f"it ended before {heard}: {told}")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert err == f"\nended by {number.name}: the broker was stopped, its data removed\n"
    assert list(tmp_path.iterdir()) == []
    found = re.search(r"bootstrap +127\.0\.0\.1:(\d+)", told)
    assert found is not None, told
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(found[1])), timeout=10)
