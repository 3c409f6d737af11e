"""Topics with known records, and reads of the data source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from moldau.client.sync import Admin, NewTopic, Producer


class HasAddress(Protocol):
    """A broker, wherever it runs."""

    @property
    def bootstrap_servers(self) -> str: ...


def make_topic(broker: HasAddress, name: str, partitions: int = 2) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(NewTopic(name, partitions))


def send(
    broker: HasAddress, topic: str, values: Sequence[bytes | None], partition: int = 0
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        keys = [f"k{index}".encode() for index in range(len(values))]
        producer.send_many(topic, list(values), keys=keys, partition=partition).result(30)


@contextmanager
def open_transaction(
    broker: HasAddress, topic: str, values: Sequence[bytes], partition: int = 0
) -> Iterator[Producer[Any, Any]]:
    """A transaction with these records: to be committed or aborted in the block."""
    name = f"{topic}-{partition}-{len(values)}"
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name) as producer:
        producer.begin_transaction()
        producer.send_many(topic, list(values), partition=partition).result(30)
        yield producer


def send_aborted(
    broker: HasAddress, topic: str, values: Sequence[bytes], partition: int = 0
) -> None:
    with open_transaction(broker, topic, values, partition) as producer:
        producer.abort_transaction()


def send_committed(
    broker: HasAddress, topic: str, values: Sequence[bytes], partition: int = 0
) -> None:
    with open_transaction(broker, topic, values, partition) as producer:
        producer.commit_transaction()


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [str(each).encode() for each in range(start, start + count)]


def reader(session: Any, broker: HasAddress, topic: str, **options: str) -> Any:
    return _with(session.read, broker, topic, options)


def stream(session: Any, broker: HasAddress, topic: str, **options: str) -> Any:
    return _with(session.readStream, broker, topic, options)


def _with(reader: Any, broker: HasAddress, topic: str, options: dict[str, str]) -> Any:
    return (
        reader.format("moldau")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .options(**options)
    )


def values_of(rows: Any) -> list[int]:
    """Sorted numbers that stand in the values of a data frame."""
    return sorted(int(row[0]) for row in rows.selectExpr("CAST(value AS STRING)").collect())
