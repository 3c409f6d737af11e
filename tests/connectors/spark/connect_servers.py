"""A Spark Connect server on this machine, as `spark.deploy=shared-local` starts it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the shared server is written down; it is stopped at the end."""
    for part in ("grpc", "grpc_status", "pandas"):
        pytest.importorskip(part, reason=f"Spark Connect needs {part}")
    place = tmp_path / "server" / "discovery.json"
    place.parent.mkdir(mode=0o700)
    monkeypatch.setenv("SPARK_LOCAL_CONNECT_DISCOVERY", str(place))
    yield place
    import_module("pyspark.sql.connect.local_server").stop_local_connect_server()


def found_server(shared: Path) -> dict[str, object]:
    """What is written down about the server."""
    found: dict[str, object] = json.loads(shared.read_text())
    return found


def server_address(shared: Path) -> str:
    """The address for `spark.remote`."""
    found = found_server(shared)
    return f"sc://{found['host']}:{found['port']}/;token={found['token']}"
