"""A Connect worker that runs one connector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import Worker, command


@contextmanager
def worker_of(
    broker: SyncEmbeddedBroker, name: str, config: dict[str, str], folder: Path
) -> Iterator[Worker]:
    file = folder / "connector.json"
    file.write_text(json.dumps({"name": name, "config": config}))
    words = ("run", str(file), "--state", str(folder / "state"))
    where = ("--bootstrap", broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    with command(*words, *where, environment={}) as worker:
        yield worker
        assert worker.stop() == 0
