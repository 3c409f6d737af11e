"""What a run that makes no archive of classes leaves behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.peers import class_archive
from tests.peers.apache_kafka import ApacheKafka, PeerMissing

TERMINATED: Final = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from tests.peers import class_archive

def loaded(kafka, folder):
    (folder / "draft.jsa").touch()
    os.kill(os.getpid(), signal.SIGTERM)
    return []

class_archive.loaded = loaded
class_archive.fetch = lambda: SimpleNamespace(archive=Path(sys.argv[1]) / "classes.jsa")
sys.exit(class_archive.main())
"""


def test_a_run_without_an_archive_fails_so_that_make_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []

    def fetch() -> ApacheKafka:
        raise PeerMissing("there is no Java")

    monkeypatch.setattr(class_archive, "fetch", fetch)
    assert class_archive.main(said.append) != 0
    assert "there is no Java" in said[0]


def test_a_run_that_is_terminated_leaves_no_draft(tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-c", TERMINATED, str(tmp_path)],
        cwd=Path(__file__).parent.parent.parent,
        check=False,
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
