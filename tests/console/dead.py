"""A sink that cannot read two records of three, and its dead letter topic."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import httpx2

from moldau.client import Admin, Consumer, NewTopic, Producer

NAME: Final = "readings"
PAGE: Final = f"/dead-letters/{NAME}"
TOPIC: Final = "measured"
QUEUE: Final = "measured-dead"
BROKEN: Final = (b"{broken", b"\xffnot text")
HEADERS: Final = [("from", b"gauge")]


async def broken_records(servers: str) -> None:
    """Make the topics; a good record and two broken ones, in both partitions of the first."""
    async with Admin(bootstrap_servers=servers) as admin:
        wanted = {TOPIC: 2, QUEUE: 1, "repaired": 2}
        await admin.create_topics(NewTopic(name, count) for name, count in wanted.items())
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait(TOPIC, b"{}", key=b"k", partition=1)
        for number, value in enumerate(BROKEN):
            await producer.send_and_wait(
                TOPIC, value, key=b"k", headers=HEADERS, partition=1 - number
            )


async def sink(url: str, servers: str, folder: Path) -> None:
    """Start the sink on a Connect worker, and wait until its dead letters are there."""
    config = {
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(folder / "measured.txt"),
        "topics": TOPIC,
        "key.converter": "StringConverter",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": QUEUE,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "consumer.override.auto.offset.reset": "earliest",
    }
    async with httpx2.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
        made = await client.put(f"/connectors/{NAME}/config", json=config)
        assert made.status_code == 201, made.text
    async with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(await consumer.partitions(QUEUE))
        for _ in BROKEN:
            await consumer.getone()
