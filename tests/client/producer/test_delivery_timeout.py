"""How long a record may take: `delivery.timeout.ms` beside `linger.ms` and `request.timeout.ms`."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import patch

import pytest

from moldau.client import Producer
from moldau.client.base.given import resolve
from moldau.client.settings import rows
from moldau.client.settings.producer import longest_delivery_ms
from moldau.config import BadSettings
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.client.producer.simulated_sender import T0, Sender
from tests.client.world import BOOTSTRAP, ClientWorld

INT_MAX = 2**31 - 1


@pytest.mark.parametrize(
    ("options", "longest_ms"),
    [
        ({}, 120_000),
        ({"linger_ms": 90_000}, 120_000),
        ({"linger_ms": 90_001}, 120_001),
        ({"linger_ms": 130_000}, 160_000),
        ({"request_timeout_ms": 200_000}, 200_005),
        ({"linger_ms": INT_MAX}, INT_MAX),
        ({"linger_ms": 0, "delivery_timeout_ms": 30_000}, 30_000),
        ({"linger_ms": 10**10, "delivery_timeout_ms": INT_MAX}, INT_MAX),
    ],
)
def test_it_lasts_for_a_linger_and_a_request(options: dict[str, Any], longest_ms: int) -> None:
    settings = resolve(rows.PRODUCER_SETTINGS, {"bootstrap.servers": BOOTSTRAP}, options)
    assert longest_delivery_ms(settings) == longest_ms


@pytest.mark.parametrize(
    "options",
    [
        {"linger_ms": 130_000, "delivery_timeout_ms": 120_000},
        {"linger_ms": 5, "delivery_timeout_ms": 30_000},
        {"request_timeout_ms": 200_000, "delivery_timeout_ms": 120_000},
        {"linger_ms": 10**10, "delivery_timeout_ms": INT_MAX - 1},
    ],
)
def test_who_gives_less_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadSettings, match=r"linger\.ms \+ request\.timeout\.ms"):
        Producer(bootstrap_servers=BOOTSTRAP, **options)


def test_who_gives_a_longer_linger_alone_is_told_and_has_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(runtime: Runtime) -> tuple[float, int]:
        async with Producer(
            runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=130_000
        ) as sender:
            accumulator = sender._accumulator
            with patch.object(accumulator, "drain", wraps=accumulator.drain) as drain:
                began = runtime.clock.monotonic()
                await (await sender.send("t", b"v"))
                return runtime.clock.monotonic() - began, drain.call_count

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.cluster.add_topic("t", [1])
        took_s, drains = world.run_client(main)
    assert 129.99 <= took_s < 131
    assert drains < 10, "it sleeps meanwhile"
    assert [each.getMessage() for each in caplog.records] == [
        "producer: delivery.timeout.ms is raised to linger.ms + request.timeout.ms, which is 160000"
    ]


def test_nobody_is_told_of_what_is_as_he_gave_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main(runtime: Runtime) -> None:
        async with Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, linger_ms=90_000):
            pass

    with ClientWorld() as world, caplog.at_level(logging.WARNING, "moldau.client"):
        world.run_client(main)
    assert caplog.records == []


def test_what_takes_records_still_is_too_late_in_its_time_as_well() -> None:
    """Though its linger is longer: nothing is woken for in vain."""
    sender = Sender(linger_s=60.0, delivery_timeout_s=10.0)
    batch = sender.accumulator.begin(sender.accumulator.queue(T0), 0.0, 0, None, b"v", ())
    assert sender.accumulator.next_wake(0.0) == 10.0
    sender.accumulator.expire(9.9)
    assert sender.newly_failed() == []
    sender.accumulator.expire(10.0)
    assert sender.newly_failed() == [batch]
    assert batch.error is not None
    assert batch.error.code is ErrorCode.REQUEST_TIMED_OUT
    assert batch.error.context["records"] == 1
    assert sender.accumulator.next_wake(10.0) is None
    assert sender.accumulator.buffer.used_bytes == 0
