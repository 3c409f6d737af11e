"""The blocking share consumer, on a broker in this process."""

from __future__ import annotations

import pickle
from collections import Counter
from threading import Event, Thread
from typing import Any

import pytest

from moldau.client.sync import (
    Admin,
    Message,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
    ShareConsumer,
)
from moldau.testing import SyncEmbeddedBroker


def filled(servers: str, count: int) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders", 2)])
        earliest = {"share.auto.offset.reset": "earliest"}
        admin.alter_configs(Resource(ResourceType.GROUP, "mailer"), set_to=earliest)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number)


def test_threads_read_a_queue() -> None:
    with SyncEmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        filled(servers, 30)
        found: list[int] = []
        with ShareConsumer("orders", group="mailer", bootstrap_servers=servers) as queue:
            assert pickle.loads(pickle.dumps(queue.configuration)).options["topics"] == "orders"  # noqa: S301
            for message in queue:
                assert message.ack()
                assert message.is_answered
                found.append(int(message.value))
                if len(found) == 20:
                    break
            assert queue.commit() == {}
            assert {each.topic for each in queue.assignment()} == {"orders"}
            while len(found) < 30:
                found += [int(each.value) for each in queue.poll(10.0)]
            assert queue.poll(0.1) == []
        assert sorted(found) == list(range(30))


def test_handlers_run_in_threads_and_failures_come_again() -> None:
    calls: Counter[int] = Counter()
    is_done = Event()

    def handle(message: Message[Any, Any]) -> None:
        number = int(message.value)
        calls[number] += 1
        if number == 5 and message.delivery_count == 1:
            raise ValueError("not yet")
        if calls.total() == 21:
            is_done.set()

    with SyncEmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        filled(servers, 20)
        queue: ShareConsumer[Any, Any] = ShareConsumer(
            "orders", group="mailer", bootstrap_servers=servers
        )
        with queue:
            worker = Thread(target=queue.map, args=(handle,), kwargs={"concurrency": 4})
            worker.start()
            assert is_done.wait(60.0)
            queue.close()
            worker.join(60.0)
            assert not worker.is_alive(), "closing ends map"
        assert calls == Counter({**dict.fromkeys(range(20), 1), 5: 2})


def test_a_consumer_that_is_not_started_says_what_to_do() -> None:
    queue: ShareConsumer[Any, Any] = ShareConsumer("t", group="g", bootstrap_servers="h:1")
    with pytest.raises(Exception, match="with"):
        queue.poll()
