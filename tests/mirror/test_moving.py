"""A consumer moves from one broker to another while `moldau mirror` runs between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client import Resource, ResourceType
from moldau.client.sync import Admin
from tests.conformance.broker import MoldauBroker
from tests.connect.committed import read
from tests.connect.processes import wait_until
from tests.mirror.quick_mirror import QUICK, read_topic
from tests.mirror.running import copied, create, fill, mirroring, read_some

pytestmark = pytest.mark.real


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of two brokers, each a process."""
    made = [MoldauBroker(tmp_path / name) for name in ("first", "second")]
    try:
        for each in made:
            each.start()
        yield made[0].bootstrap_servers, made[1].bootstrap_servers
    finally:
        for each in made:
            each.stop()


def test_a_consumer_moves_and_goes_on_without_loss(
    brokers: tuple[str, str], tmp_path: Path
) -> None:
    source, target = brokers
    create(source, "orders", 2, retention_ms="-1")
    fill(source, "orders", range(600))
    before = read_some(source, "orders", "billing", 300)
    words = ["--from", source, "--to", target, "--topics", "orders,late", "--groups", "billing"]

    with (
        mirroring(tmp_path, *words, *QUICK),
        Admin(bootstrap_servers=source) as at_source,
        Admin(bootstrap_servers=target) as at_target,
    ):
        wait_until(lambda: len(read_topic(at_target, "source.orders")) == 2, "the topic is made")
        fill(source, "orders", range(600, 1000))
        create(source, "late", 1, retention_ms="-1")
        at_source.create_partitions("orders", 3)
        at_source.alter_configs(topic("orders"), set_to={"max.message.bytes": "123456"})
        wait_until(lambda: len(read_topic(at_target, "source.late")) == 1, "a new topic is found")
        wait_until(lambda: len(read_topic(at_target, "source.orders")) == 3, "the copy grows")
        fill(source, "late", range(20))
        wait_until(lambda: len(read(target, "source.late")) == 20, "the new topic is copied")
        wait_until(lambda: len(read(target, "source.orders")) == 1000, "all records are copied")
        wait_until(lambda: setting(at_target, "max.message.bytes") == "123456", "settings follow")
        wait_until(lambda: len(at_target.group_offsets("billing")) == 2, "the group is set")

    with Admin(bootstrap_servers=target) as at_target:
        offsets = at_target.group_offsets("billing")  # the mirror moves them no more
    assert setting_of_source(source) == "123456"
    assert sorted(map(copied, read(source, "orders")), key=repr) == sorted(
        map(copied, read(target, "source.orders")), key=repr
    )
    assert all(offset.offset > 0 for offset in offsets.values())
    again = 1000 - sum(offset.offset for offset in offsets.values())
    after = read_some(target, "source.orders", "billing", again)
    keys = {record.key for record in (*before, *after)}
    assert keys == {b"key %d" % n for n in range(1000)}
    assert len(after) == again < 1000


def topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def setting(admin: Admin, name: str, of: str = "source.orders") -> str | None:
    (found,) = admin.describe_configs(topic(of), names=[name])
    return found.value


def setting_of_source(source: str) -> str | None:
    with Admin(bootstrap_servers=source) as admin:
        return setting(admin, "max.message.bytes", "orders")
