"""A failed test may leave connections open: its loop closes all the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FAILING: Final = """
import socket

from moldau.runtime.real import run


def test_that_fails():
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()

        async def main(runtime):
            _, writer = await runtime.network.open_streams(host, port)
            writer.write(b"some bytes")
            raise AssertionError("on purpose")

        run(main)
"""


def test_a_test_that_fails_with_an_open_connection_ends(tmp_path: Path) -> None:
    pytest.importorskip("uvloop")
    path = tmp_path / "test_open.py"
    path.write_text(FAILING)
    words = (
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-c",
        ROOT / "pyproject.toml",
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, *map(str, words), str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "on purpose" in done.stdout
