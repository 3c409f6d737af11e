"""A scrape says what clients did, in a format and by names that others read."""

from __future__ import annotations

import pytest

from moldau.broker.exposition import table
from moldau.broker.exposition.reference import render
from moldau.client import Admin
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.renew import PAGE
from tests.broker.exposition.scraped import Scraped, application_of, broker_of, scrape
from tests.broker.exposition.used_broker import RECORDS, with_a_used_broker

pytestmark = pytest.mark.real

OWN = "## Our own"
NOT_ON_ONE_BROKER = {
    "kafka_server_kafkaserver_linux_disk_read_bytes",
    "moldau_broker_service_up",  # it runs no service
    "moldau_shard_core_share",  # written by the process of several: test_shard_balance.py
    "moldau_shard_moves_total",
}
REMOTE = {row.name for name, row in vars(table).items() if name.startswith("remote_")}
"""Written with remote storage alone: tests/broker/tiered/test_tier_metrics.py."""


def test_what_clients_did_is_in_the_page() -> None:
    async def check(broker: EmbeddedBroker) -> None:
        page = await scrape(application_of(broker))
        at = {"topic": "orders", "partition": "1"}
        assert page.value("kafka_topic_partition_current_offset", **at) == RECORDS
        assert page.value("kafka_topic_partition_oldest_offset", **at) == 0
        share = {"group": "mailer", **at}
        assert page.value("moldau_sharegroup_lag", **share) == RECORDS - 1
        held = page.value("kafka_server_sharepartitionmetrics_inflightmessagecount", **share)
        given = page.value("moldau_sharegroup_deliveries_total")
        assert (held, given) == (given - 1, held + 1)
        words = "kafka_server_sharegroupmetrics_recordacknowledgement_total"
        assert page.value(words, acktype="accept") == 1
        assert page.value(words, acktype="reject") == 0
        assert page.value("kafka_topic_partition_in_sync_replica", **at) == 1
        assert page.value("kafka_topic_partition_leader_is_preferred", **at) == 1
        assert page.value("kafka_topic_partition_under_replicated_partition", **at) == 0
        assert page.value("kafka_log_log_size", **at) > RECORDS * 100
        assert page.value("kafka_topic_partitions", topic="orders") == 2
        group = {"consumergroup": "billing", **at}
        assert page.value("kafka_consumergroup_current_offset", **group) == 3
        assert page.value("kafka_consumergroup_lag", **group) == RECORDS - 3
        assert (
            page.value("kafka_consumergroup_lag_sum", consumergroup="billing", topic="orders") == 4
        )
        prefix = "kafka_server_brokertopicmetrics"
        assert page.value(f"{prefix}_messagesin_total", topic="orders") == RECORDS
        assert page.value(f"{prefix}_bytesin_total", topic="orders") > RECORDS * 100
        assert page.value(f"{prefix}_bytesout_total", topic="orders") > 0
        assert page.value(f"{prefix}_totalproducerequests_total", topic="orders") == RECORDS
        assert page.value(f"{prefix}_messagesin_total") >= RECORDS
        assert (
            page.labelled("kafka_network_requestmetrics_requests_total", "request")["Produce"] == 7
        )
        assert page.value("kafka_server_raftmetrics_current_state", current_state="leader") == 1
        assert page.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
        assert page.value("kafka_server_kafkaserver_brokerstate") == 3
        assert 0 <= page.value(table.network_idle.name) <= 1

    with_a_used_broker(check)


def test_a_refused_batch_is_counted_and_a_deleted_topic_leaves_the_page() -> None:
    async def check(broker: EmbeddedBroker) -> None:
        application = application_of(broker)
        before = await scrape(application)
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.delete_topics(["orders"])
        after = await scrape(application)
        name = "kafka_server_brokertopicmetrics_messagesin_total"
        assert frozenset({("topic", "orders")}) not in after.values[name]
        assert after.value(name) >= before.value(name)
        assert "orders" not in after.labelled("kafka_topic_partition_leader", "topic")

    with_a_used_broker(check)


def test_every_series_is_a_row_or_declared_and_every_row_is_written() -> None:
    async def check(broker: EmbeddedBroker) -> None:
        page = await scrape(application_of(broker))
        rows = {row.name: row for row in table.rows()}
        declared = {each.prometheus_name for each in broker_of(broker).node.metrics.snapshot()}
        assert page.kinds.keys() <= rows.keys() | declared
        assert rows.keys() - page.kinds.keys() <= NOT_ON_ONE_BROKER | REMOTE
        for name, row in rows.items():
            for labels in page.values.get(name, {}):
                assert {label for label, _ in labels} <= set(row.labels), name
        assert not rows.keys() & declared
        assert len(rows) >= 60

    with_a_used_broker(check)


def test_names_from_clients_are_escaped() -> None:
    from moldau.broker.exposition.page import Page

    page = Page()
    page.add(table.group_lag_sum, 4, 'a"b\\c\nd', "orders")
    (labels,) = Scraped("".join(page.pieces())).values["kafka_consumergroup_lag_sum"]

    assert dict(labels)["consumergroup"] == 'a\\"b\\\\c\\nd'


def test_the_page_of_the_docs_is_the_one_that_the_rows_make() -> None:
    """Our own metrics stand below the rows: each that the page names is declared."""

    async def check(broker: EmbeddedBroker) -> None:
        declared = broker_of(broker).node.metrics.snapshot()
        rows, _, own = PAGE.read_text(encoding="ascii").partition(OWN)
        assert rows == render(declared).partition(OWN)[0]
        named = {line.split("`")[1] for line in own.splitlines() if line.startswith("| `")}
        assert len(named) > 20
        assert named <= {each.prometheus_name for each in declared}

    with_a_used_broker(check)
