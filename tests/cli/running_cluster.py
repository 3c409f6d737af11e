"""The process of a `moldau cluster up`, and those of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moldau.runtime.node_processes import NodeProcess

WITHIN_S = 90


@contextmanager
def running(data: Path, port: int, nodes: int) -> Iterator[NodeProcess]:
    words = ["cluster", "up", "--nodes", str(nodes), "--port", str(port), "--data", str(data)]
    process = NodeProcess(words, str(data.parent / "up.log"))
    try:
        for _ in range(nodes + 2):
            line = process.line(WITHIN_S)
        assert line == "Ctrl-C stops all."
        yield process
    finally:
        process.terminate()
        if process.wait(WITHIN_S) is None:
            process.kill()
            process.wait(WITHIN_S)


def pid_of(data: Path, node_id: int) -> int:
    """The process that has this node's data."""
    wanted = f"{data}/node-{node_id}"
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted.encode() in words:
                return int(folder.name)
    raise AssertionError(f"no process has {wanted}")
