"""`moldau dev`: a broker and a worker that are up together."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.real


def test_broker_and_worker_come_up_together_and_end_in_order(tmp_path: Path) -> None:
    words = ["dev", "--port", "0", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0"]
    words += ["--registry", "127.0.0.1:0"]
    main = "from moldau.cli import main; exit(main())"
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-c", main, *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in range(7)]
            with urllib.request.urlopen(f"{lines[4][1]}/subjects", timeout=30) as answer:  # noqa: S310
                assert answer.read() == b"[]"
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()

    assert lines[0] == ["moldau", "dev", "is", "up"]
    assert [line[0] for line in lines[1:5]] == ["bootstrap", "rest", "console", "registry"]
