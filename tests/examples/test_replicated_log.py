"""`make story`: it can be told, and interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Ctrl-C is what it is in a terminal, whoever started the tests and ignores it.
_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from examples.replicated_log.__main__ import main; exit(main([]))"
)


@pytest.mark.real
def test_ctrl_c_ends_it_with_one_line() -> None:
    process = subprocess.Popen(  # noqa: S603 - ours
        [sys.executable, "-u", "-c", _MAIN],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert err == "\ninterrupted: the story ends here\n"
