"""Kafka's own `ConnectDistributed`, on any broker."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import httpx2

from moldau.runtime.node_processes import free_ports
from tests.connect.processes import Worker, wait_until
from tests.peers.apache_kafka import FIRST_COMPILER, ApacheKafka

JSON = "org.apache.kafka.connect.json.JsonConverter"


@contextmanager
def java_worker(
    kafka: ApacheKafka, bootstrap: str, folder: Path, cluster: str,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Worker]:  # fmt: skip
    """From its first answer on. `cluster` names its group and internal topics; `more` settings."""
    port = free_ports(1)[0]
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": cluster,
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "key.converter": JSON,
        "value.converter": JSON,
        "offset.flush.interval.ms": "200",
        "plugin.discovery": "service_load",
        **{
            f"{kind}.storage.{name}": value
            for kind in ("config", "offset", "status")
            for name, value in (("topic", f"{cluster}-{kind}s"), ("replication.factor", "1"))
        },
    }
    settings.update(more)
    settings["status.storage.topic"] = f"{cluster}-status"
    path = folder / "java-worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    log = folder / "java-worker.log"
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603 - the java that was found
            [*kafka.command("-Xmx256m", FIRST_COMPILER), main, str(path)],
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        worker = Worker(process, f"http://127.0.0.1:{port}")  # type: ignore[arg-type]
        try:
            wait_until(lambda: _answers(worker, process), f"Java's worker is up: {log}", 180)
            yield worker
        finally:
            worker.client.close()
            process.kill()


def _answers(worker: Worker, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Java's worker has ended"
    try:
        return worker.client.get("/health").status_code == 200
    except httpx2.TransportError:
        return False
