"""Commands that handle many records say once, at their start, that no compiled kernel does it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.command import Exit
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell

NOTICE = "records are read and written in plain Python"
WITHOUT_KERNEL = 'import sys\nsys.modules["moldau.records._speed"] = None\n'
APP = """
from moldau.streams import Streams

app = Streams("copies")
app.stream("given", str).to("copied")
"""
PIPELINE = "pipeline: small\ntopics: {given: {partitions: 1}}\n"
WORKER = tuple(
    word
    for name in ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    for word in ("--set", f"{name}=kernel-{name.split('.')[0]}")
)


@pytest.mark.real
@pytest.mark.parametrize(
    ("words", "until", "times"),
    [
        (("streams", "run", "copies:app", "--workers", "2", "--state", "state"), "reading", 2),
        (("connect", "start", *WORKER), "Ctrl-C stops it", 1),
        (("pipeline", "run", "small.yaml"), "runs; Ctrl-C", 1),
    ],
)
def test_a_command_says_once_that_plain_python_handles_its_records(
    words: tuple[str, ...],
    until: str,
    times: int,
    moldau_broker: SyncEmbeddedBroker,
    tmp_path: Path,
) -> None:
    """`until` is a line of a part of it that has started, and `times` how many parts there are."""
    shell = Shell(moldau_broker.bootstrap_servers)
    shell("topic", "create", "given", "copied")
    for name, text in (("sitecustomize", WITHOUT_KERNEL), ("copies", APP)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "small.yaml").write_text(PIPELINE)
    listen = ("--listen", f"127.0.0.1:{free_ports(1)[0]}") if words[0] == "connect" else ()
    with subprocess.Popen(  # noqa: S603 - our own commands
        [sys.executable, "-m", "moldau.cli", *words, *listen],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **shell.environment, "PYTHONPATH": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        try:
            said, left = "", times
            while left and (line := process.stdout.readline()):
                said += line
                left -= until in line
            process.terminate()
            said += process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert left == 0, said
    assert said.count(NOTICE) == 1, said


def test_an_app_on_spark_says_so_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("moldau.records.kernel.KERNEL", "pure")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "copied_by_spark.py").write_text(APP)
    words = ("--engine", "spark", "--checkpoint", str(tmp_path), "--set", "start.timeout.ms=1")

    done = Shell("localhost:1")("streams", "run", "copied_by_spark:app", *words)

    assert done.code == Exit.FAILED
    assert done.err.count(NOTICE) == 1
