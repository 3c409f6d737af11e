"""Two brokers, what is on them, and `moldau mirror` as a process between them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moldau.client import ConsumerRecord, NewTopic
from moldau.client.sync import Admin, Consumer, Producer

COMMAND = [sys.executable, "-m", "moldau.cli", "mirror"]


def mirrored(folder: Path, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """The finished command."""
    return subprocess.run(  # noqa: S603 - our own command
        [*COMMAND, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def mirroring(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The command while it runs, from its announcement on; killed at the end."""
    with subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, *words], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert "is up" in process.stdout.readline()
            yield process
        finally:
            process.kill()


def create(bootstrap: str, topic: str, partitions: int, **configs: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topic(NewTopic(topic, partitions, 1, settings))


def fill(bootstrap: str, topic: str, numbers: range) -> None:
    """Records with all that a record has, tombstones among them."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        for n in numbers:
            producer.send(
                topic,
                None if n % 10 == 9 else b"value %d" % n,
                key=b"key %d" % n,
                headers=[("n", b"\0\xff"), ("none", None)] if n % 3 == 0 else (),
                timestamp_ms=1_700_000_000_000 + n,
            )


def read_some(bootstrap: str, topic: str, group: str, count: int) -> list[ConsumerRecord]:
    """What a new member of a group reads, at least so many records, and then commits."""
    found: list[ConsumerRecord] = []
    with Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        while len(found) < count:
            for part in consumer.poll(1.0, max_records=50):
                found += part.records
        consumer.commit()
    return found


def copied(record: ConsumerRecord) -> tuple[object, ...]:
    """What a copy has in common with its source."""
    return record.partition, record.key, record.value, record.headers, record.timestamp
