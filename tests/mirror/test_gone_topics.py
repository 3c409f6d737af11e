"""Topics of the source that are deleted, come back, or are others by the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from moldau.client import ErrorCode, KafkaError
from moldau.client.sync import Admin, Producer
from moldau.mirror.source_task import MirrorSourceTask
from moldau.testing import SyncEmbeddedBroker
from tests.connect.committed import read
from tests.connectors.contexts import Offsets
from tests.mirror.running import create, mirrored
from tests.mirror.tasks import reading, values


@pytest.fixture
def source() -> Iterator[str]:
    with SyncEmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def fill(bootstrap: str, topic: str, *numbers: int) -> list[bytes | None]:
    written: list[bytes | None] = [b"%d" % n for n in numbers]
    with Producer(bootstrap_servers=bootstrap) as producer:
        for value in written:
            producer.send(topic, value, partition=0)
    return written


def delete(bootstrap: str, topic: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_topic(topic)


def test_a_topic_that_is_created_anew_is_copied_by_the_same_task(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(source, "orders", 1)
    written = fill(source, "orders", 1, 2, 3)

    with reading(source, "orders-0") as task:
        assert values(task, 3) == written
        delete(source, "orders")
        assert task.poll() is None
        assert not has_topic(source, "orders")
        create(source, "orders", 1)
        anew = fill(source, "orders", 4, 5, 6, 7)
        assert values(task, 4) == anew

    assert "deleted and made again" in caplog.text


@pytest.mark.parametrize("is_another", [False, True])
def test_a_topic_that_was_given_up_is_taken_up_at_the_next_refresh(
    source: str, caplog: pytest.LogCaptureFixture, *, is_another: bool
) -> None:
    for topic in ("orders", "other"):
        create(source, topic, 1)
    fill(source, "orders", 1, 2, 3)

    with reading(source, "orders-0,other-0") as task:
        values(task, 3)
        give_up(task, "orders")
        assert "orders-0 is gone from the source" in caplog.text
        assert values_after(task, fill(source, "other", 7))
        if is_another:
            delete(source, "orders")
            create(source, "orders", 1)
        assert values_after(task, fill(source, "orders", 4, 5, 6, 7))

    assert "orders-0 is there again" in caplog.text
    assert ("created anew" in caplog.text) is is_another


def give_up(task: MirrorSourceTask, topic: str) -> None:
    """Let the task's consumer say once that a topic is not there, as with old metadata."""
    assert task._partitions is not None
    gone = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=topic)
    with patch.object(task._partitions._consumer, "poll_batches", side_effect=gone):
        assert task.poll() is None


def values_after(task: MirrorSourceTask, written: list[bytes | None]) -> bool:
    """Whether the task reads just these values next."""
    return values(task, len(written)) == written


def has_topic(bootstrap: str, topic: str) -> bool:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return any(each.name == topic for each in admin.list_topics())


def test_a_topic_that_is_missing_at_the_start_is_taken_up_where_its_copy_ends(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    create(source, "other", 1)
    offsets = Offsets()
    with reading(source, "orders-0,other-0", offsets) as task:
        assert values(task, 0) == []
        assert "orders-0 is gone" in caplog.text
        create(source, "orders", 1)
        written = fill(source, "orders", 1, 2)
        assert values(task, 2) == written

    assert fill(source, "orders", 3) == read_on(source, offsets)


def read_on(source: str, offsets: Offsets) -> list[bytes | None]:
    with reading(source, "orders-0", offsets) as task:
        return values(task, 1)


def test_a_topic_that_was_created_anew_between_two_runs_is_copied_from_its_beginning(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = Offsets()
    create(source, "orders", 1)
    fill(source, "orders", 1, 2)
    with reading(source, "orders-0", offsets) as task:
        values(task, 2)
    delete(source, "orders")
    create(source, "orders", 1)
    anew = fill(source, "orders", 3, 4, 5)

    with reading(source, "orders-0", offsets) as task:
        assert values(task, 3) == anew

    assert "orders-0 was copied up to 2, then deleted and created anew" in caplog.text


def test_records_behind_an_open_transaction_are_not_copied_twice_by_an_exactly_once_run(
    source: str, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = Offsets()
    create(source, "orders", 1)
    with (
        Producer(bootstrap_servers=source, transactional_id="shop") as producer,
        producer.transaction(),
    ):
        producer.send("orders", b"open", partition=0)
        producer.flush()
        fill(source, "orders", 1, 2)
        with reading(source, "orders-0", offsets) as task:
            values(task, 3)
        committed = {"source.consumer.isolation.level": "read_committed"}
        for stored in (offsets, without_ids(offsets)):
            with reading(source, "orders-0", stored, **committed) as task:
                assert task.poll() is None

    assert "copied" not in caplog.text
    fill(source, "orders", 3)
    with reading(source, "orders-0", offsets, **committed) as task:
        assert values(task, 1) == [b"3"]


@pytest.mark.real
def test_once_copies_a_topic_that_was_created_anew_with_fewer_records(
    source: str, tmp_path: Path
) -> None:
    with SyncEmbeddedBroker() as broker:
        target = broker.bootstrap_servers
        words = ["--from", source, "--to", target, "--topics", "orders", "--once"]
        create(source, "orders", 1)
        written = fill(source, "orders", *range(9))
        assert mirrored(tmp_path, *words).returncode == 0
        delete(source, "orders")
        create(source, "orders", 1)
        written += fill(source, "orders", 10, 11)

        done = mirrored(tmp_path, *words)

        assert done.returncode == 0, done.stderr
        assert "2 to go" in done.stdout
        assert "created anew" in done.stderr
        assert [each.value for each in read(target, "source.orders")] == written


def without_ids(offsets: Offsets) -> Offsets:
    """The same offsets as Java's MirrorMaker stores them."""
    return Offsets((partition, {"offset": at["offset"]}) for partition, at in offsets.stored)
