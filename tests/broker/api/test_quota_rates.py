"""Rates on virtual time: a client that always asks gets its quota, over every window."""

from __future__ import annotations

import pytest

from moldau.broker.api.quota.throttle import Client, Rate, Throttle
from moldau.broker.controller.quota_limits import limit_of
from moldau.broker.controller.quotas import CONNECTION_RATE, ClientQuotas
from moldau.protocol.schemas.metadata_log import ClientQuotaRecord, EntityData

KEY = "producer_byte_rate"
WINDOW_MS = 10_000


def quotas(*given: tuple[dict[str, str | None], float], key: str = KEY) -> ClientQuotas:
    made = ClientQuotas()
    for entity, value in given:
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        made.replay(ClientQuotaRecord(entity=parts, key=key, value=value, remove=False))
    return made


@pytest.mark.parametrize(("quota", "batch"), [(1_000, 20), (1_000_000, 16_384)])
def test_a_producer_that_waits_as_told_gets_its_quota_within_one_percent(
    quota: int, batch: int
) -> None:
    """30 windows after the first one; each request takes a millisecond."""
    known = quotas(({"user": "u"}, quota))
    throttle = Throttle(lambda: known)
    client, now_ms, sent = Client("u", "c"), 0, 0
    begin_ms = 2 * WINDOW_MS
    end_ms = begin_ms + 30 * WINDOW_MS
    while now_ms < end_ms:
        if now_ms >= begin_ms:
            sent += batch
        now_ms += 1 + throttle.on_produced(client, batch, now_ms)
    assert sent / (30 * WINDOW_MS / 1000) == pytest.approx(quota, rel=0.01)


def test_a_fetch_beyond_the_quota_is_held_and_not_counted() -> None:
    known = quotas(({"user": "u"}, 1000), key="consumer_byte_rate")
    throttle = Throttle(lambda: known)
    client = Client("u", "c")
    assert throttle.fetch_bytes_max(client) == 10_000
    assert throttle.on_fetched(client, 10_000, 0) == 0
    wait_ms = throttle.on_fetched(client, 5_000, 1)
    assert 0 < wait_ms <= 11_000
    assert throttle.on_fetched(client, 5_000, 1) == wait_ms, "what is held does not count"
    sent, now_ms = 0, 20_000
    begin_ms = now_ms
    while now_ms < begin_ms + 300_000:
        wait_ms = throttle.on_fetched(client, 100, now_ms)
        sent += 0 if wait_ms else 100
        now_ms += wait_ms or 1
    assert sent / 300 == pytest.approx(1000, rel=0.05)


def test_a_connection_rate_is_of_an_address_and_not_of_its_text() -> None:
    given = {"2001:0db8::1": 1, "::ffff:192.0.2.1": 2, "192.0.2.2": 3, "a.host": 4}
    levels: list[tuple[dict[str, str | None], float]] = [
        ({"ip": name}, rate) for name, rate in given.items()
    ]
    known = quotas(*levels, key=CONNECTION_RATE)
    peers = ("2001:db8::1", "192.0.2.1", "::ffff:192.0.2.2", "a.host", "192.0.2.3")
    assert [known.connection_rate(each) for each in peers] == [1, 2, 3, 4, None]
    default = EntityData(entity_type="ip", entity_name=None)
    known.replay(ClientQuotaRecord(entity=[default], key=CONNECTION_RATE, value=9, remove=False))
    assert known.connection_rate("192.0.2.3") == 9


def test_the_most_specific_quota_counts_and_says_which_clients_share_a_rate() -> None:
    levels: list[tuple[dict[str, str | None], tuple[str | None, str | None]]] = [
        ({"client-id": None}, (None, "c")),
        ({"client-id": "c"}, (None, "c")),
        ({"user": None}, ("u", None)),
        ({"user": None, "client-id": None}, ("u", "c")),
        ({"user": None, "client-id": "c"}, ("u", "c")),
        ({"user": "u"}, ("u", None)),
        ({"user": "u", "client-id": None}, ("u", "c")),
        ({"user": "u", "client-id": "c"}, ("u", "c")),
    ]
    for count in range(1, len(levels) + 1):
        known = quotas(*((entity, 1.0 + n) for n, (entity, _) in enumerate(levels[:count])))
        assert limit_of(known, KEY, "u", "c") == (float(count), *levels[count - 1][1])
    assert limit_of(quotas(({"user": "u"}, 1)), KEY, "other", "c") is None
    assert limit_of(quotas(({"user": "u"}, 1)), "consumer_byte_rate", "u", "c") is None


def test_a_rate_forgets_what_is_older_than_its_window() -> None:
    rate = Rate()
    rate.record(11_000, 0)
    assert rate.measure(0) == 1100
    assert rate.measure(10_999) == pytest.approx(1000, rel=0.01)
    assert rate.measure(11_000) == 0
    assert rate.is_idle(11_000)
    assert not rate.is_idle(10_999)


def test_rates_are_kept_of_active_clients_only() -> None:
    known = quotas(({"client-id": None}, 1e9))
    throttle = Throttle(lambda: known)
    for number in range(12_000):
        throttle.on_produced(Client("u", str(number)), 1, number * 10)
    assert len(throttle._rates) <= 10_000
