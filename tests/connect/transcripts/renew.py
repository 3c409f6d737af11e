"""`python -m tests.connect.transcripts.renew` asks Java's worker again and keeps its answers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.transcripts.conversation import held
from tests.connect.transcripts.java_worker import java_worker
from tests.connect.transcripts.kept import write
from tests.peers.apache_kafka import WITH_CONNECTORS, fetch


def renew() -> None:
    with SyncEmbeddedBroker() as broker, TemporaryDirectory() as name:
        folder = Path(name)
        with java_worker(
            fetch(WITH_CONNECTORS), broker.bootstrap_servers, folder, "transcripts"
        ) as worker:
            write(held(worker, folder, "the-topic"))


if __name__ == "__main__":
    renew()
