"""A project of `moldau new` in an environment with nothing but what it says that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from release.build import build
from tests.connect.processes import wait_until
from tests.connect.worker.dev_processes import PATIENCE_S, dev
from tests.wheels import install, needs_uv, new_folder, run_uv

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.deep, needs_uv]


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="it asks Linux's /proc")
def test_each_kind_installs_passes_its_test_and_runs_on_two_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, home = new_folder(tmp_path), tmp_path / "home"
    build(wheels, [sys.executable], "1700000000")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    install(home, "moldau")
    python = str(home / "bin" / "python")
    for kind in ("stream", "connector", "pipeline"):
        run(python, tmp_path, "-m", "moldau", "new", kind, f"my-{kind}")
        folder = tmp_path / f"my-{kind}"
        run_uv("pip", "install", "-q", "-p", python, "-e", f"{folder}[test]")
        run(python, folder, "-m", "pytest", "-q")
        with dev(folder, "--no-registry", python=python) as running:
            bootstrap = running.place("bootstrap")

            def ask(*words: str, source: str = "", at: str = bootstrap) -> str:
                return run(python, tmp_path, "-m", "moldau", "-b", at, *words, source=source)

            def is_read(topic: str, part: str, count: int = 1) -> bool:
                return ask("consume", topic).count(part) >= count

            if kind == "stream":
                running.until("streams app my-stream starts")
                ask("produce", "lines", source="a b c d e f\n")
                wait_until(lambda: is_read("counts", "1", 6), kind, PATIENCE_S)
            elif kind == "connector":
                running.until("rest ")
                wait_until(lambda: is_read("numbers", '"number":', 3), kind, PATIENCE_S)
            else:
                running.until("pipeline my-pipeline runs")
                wait_until(lambda: is_read("counts", "be 2"), kind, PATIENCE_S)
            said = ask("topic", "describe", "numbers" if kind == "connector" else "lines", "--json")
            assert said.count('"partition":') == 2
            assert running.stop() == 0


def run(python: str, folder: Path, *words: str, source: str = "") -> str:
    """What a program says. It must succeed."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(  # noqa: S603 - our own
        [python, *words],
        cwd=folder,
        input=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
