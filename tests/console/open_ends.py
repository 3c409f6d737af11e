"""A topic with two transactions that are left open."""

from __future__ import annotations

from moldau.client import Admin, NewTopic
from moldau.records import Producer
from tests.cli.open_transactions import begin, produce

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
SLOW = "app/that is slow"


async def leave_open(servers: str, topic: str) -> None:
    """A transaction in partition 0 that its producer leaves open, and one in partition 1 that no
    coordinator knows, as a late request did before brokers asked the coordinator."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(NewTopic(topic, 2))
        await begin(admin, SLOW, topic)
        await produce(admin, "nobody", topic, 1, Producer(987_654, 3, 0, True))
