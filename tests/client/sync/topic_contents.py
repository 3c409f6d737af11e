"""Topics, the values in them, and work in several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(topic, partitions=partitions))


def read(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    """All values of a topic, by partition."""
    found: dict[int, list[bytes]] = {}
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        partitions = consumer.partitions(topic)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for part in consumer.poll(5.0):
                values = [record.value or b"" for record in part.records]
                found.setdefault(part.partition, []).extend(values)
    return found


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Runs `work(number)` in so many threads at once; a failure fails the test."""
    failures: list[BaseException] = []
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            ready.wait()
            work(number)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
