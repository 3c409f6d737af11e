"""What a broker with tiered storage writes on its page of metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.exposition import table
from moldau.broker.exposition.application import make_application
from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.server import Broker
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.real import RealClock
from tests.broker.exposition.scraped import Scraped, scrape, turn
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire
from tests.broker.tiered.stores import on_runtime
from tests.broker.tiered.tiered_house import VALUE, is_cut, objects, until
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC

pytestmark = pytest.mark.real
PREFIX = "kafka_server_brokertopicmetrics_remote"


async def page_of(broker: Broker) -> Scraped:
    observed = ObservedBroker(broker)
    return await scrape(make_application(RealClock(), turn, lambda: observed))


async def filled(wire: Wire) -> None:
    assert await wire.create("t", 1, **TOPIC) == ErrorCode.NONE
    for _ in range(40):
        assert (await wire.produce("t", [VALUE])).error_code == ErrorCode.NONE


def test_copies_and_reads_are_counted_for_their_topic_and_in_sum(tmp_path: Path) -> None:
    async def main(runtime: Runtime) -> None:
        given = {**SETTINGS, "remote_storage": f"file://{tmp_path}"}
        async with house(runtime) as home, home.open(**given) as (broker, wire):
            await filled(wire)
            assert await wire.create("plain", 1) == ErrorCode.NONE
            await wire.produce("plain", [VALUE])
            await until(lambda: is_cut(broker, "t"))
            assert (await wire.fetch_answer("t", 0)).error_code == ErrorCode.NONE
            page = await page_of(broker)
            count = len(objects(tmp_path)) / 2
            assert page.value(f"{PREFIX}logmetadatacount", topic="t") == count > 0
            for labels in ({"topic": "t"}, {}):
                assert page.value(f"{PREFIX}copyrequests_total", **labels) == count
                assert page.value(f"{PREFIX}copyerrors_total", **labels) == 0
                size = page.value(f"{PREFIX}logsizebytes", **labels)
                assert size == page.value(f"{PREFIX}copybytes_total", **labels) > 30 * 200
                assert page.value(f"{PREFIX}copylagsegments", **labels) == 0
                assert page.value(f"{PREFIX}fetchrequests_total", **labels) >= 1
                assert page.value(f"{PREFIX}fetchbytes_total", **labels) > 0
            of_plain = frozenset({("topic", "plain")})
            assert of_plain in page.values["kafka_server_brokertopicmetrics_bytesin_total"]
            assert of_plain not in page.values[f"{PREFIX}copyrequests_total"]
            assert page.value("moldau_tiered_store_ready") == 1
            assert page.labelled("moldau_tiered_store_calls_total", "operation")["put"] >= 2 * count
            written = {name for name in page.kinds if "remote" in name or "tiered" in name}
            rows = {row.name for name, row in vars(table).items() if name.startswith("remote_")}
            assert rows <= page.kinds.keys()
            assert len(written) >= 20

    on_runtime(main)


def test_what_waits_for_a_store_that_fails_is_seen(tmp_path: Path) -> None:
    """The store is a file where a folder should be: nothing is copied, and the lag grows."""
    broken = tmp_path / "file"
    broken.write_text("not a folder")

    async def main(runtime: Runtime) -> None:
        given = {**SETTINGS, "remote_storage": f"file://{broken}"}
        async with house(runtime) as home, home.open(**given) as (broker, wire):
            await filled(wire)
            home_is_ready = broker.remote_storage
            assert home_is_ready is not None
            await until(lambda: any(sizes.waiting_count for _, sizes in home_is_ready.sizes()))
            page = await page_of(broker)
            assert page.value("moldau_tiered_store_ready") == 0
            assert page.value(f"{PREFIX}copylagsegments", topic="t") >= 1
            assert page.value(f"{PREFIX}copylagbytes") >= 200
            assert page.value(f"{PREFIX}logsizebytes") == 0

    on_runtime(main)
