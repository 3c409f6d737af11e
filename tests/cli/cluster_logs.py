"""The logs of the nodes that `moldau cluster up` starts."""

from __future__ import annotations

from pathlib import Path


def ends_of_logs(data: Path) -> str:
    """The last lines of every node, for the report of a failure."""
    logs = sorted(data.glob("node-*.log"))
    return "".join(
        f"\n{log.name}:\n" + "\n".join(log.read_text(encoding="utf-8").splitlines()[-20:])
        for log in logs
    )
