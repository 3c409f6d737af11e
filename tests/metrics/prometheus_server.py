"""A real Prometheus that scrapes one page each second."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.runtime.node_processes import free_ports


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[int]:
    """Start it for the page at HOST:PORT, with the job `moldau`. Yield its port."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: apt install prometheus)")
    config, (port,) = folder / "prometheus.yml", free_ports(1)
    config.write_text(
        "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: moldau\n"
        f'  static_configs: [{{targets: ["{target}"]}}]\n'
    )
    running = subprocess.Popen(  # noqa: S603 - a program of the machine
        [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data-prometheus'}",
         f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield port
    finally:
        running.terminate()
        running.wait(timeout=60)
