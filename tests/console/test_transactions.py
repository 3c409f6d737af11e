"""Transactions on the pages: open ones, what blocks a partition, and how one is ended."""

from __future__ import annotations

import asyncio

import pytest

from moldau.console.access.visitor import Access
from moldau.console.pages import transactions
from moldau.testing import EmbeddedBroker
from tests.console.open_ends import SLOW, UNVERIFIED, leave_open
from tests.console.shown import browser

pytestmark = pytest.mark.real

HUNG = "/transactions/hanging/orders"


def test_open_transactions_and_what_blocks_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with EmbeddedBroker(settings=UNVERIFIED) as broker:
            await leave_open(broker.bootstrap_servers, "orders")
            async with browser(broker.bootstrap_servers, Access()) as client:
                for path in ("/transactions?topic=orders", "/transactions"):
                    page = (await client.get(path)).text
                    assert SLOW in page
                    assert "Ongoing" in page
                    assert "its producer or its coordinator ends it" in page
                    assert "producer 987654" in page
                    assert page.count("hangs</span>") == 1
                    assert 'method="post"' not in page
                for path in (f"/transactions/abort/{SLOW}", HUNG):
                    assert (await client.post(path, data={"name": SLOW})).status_code == 403
                assert (await client.get("/transactions?topic=none")).status_code == 404
                monkeypatch.setattr(transactions, "PARTITIONS_MAX", 1)
                assert "name a topic" in (await client.get("/transactions")).text

    asyncio.run(run())


def test_a_transaction_is_aborted_after_its_name_was_typed() -> None:
    async def run() -> None:
        async with EmbeddedBroker(settings=UNVERIFIED) as broker:
            await leave_open(broker.bootstrap_servers, "orders")
            async with browser(broker.bootstrap_servers) as client:
                known = {"name": "orders", "partition": "0", "from": "0"}
                refused = await client.post(HUNG, data=known)
                assert (refused.status_code, "does not hang" in refused.text) == (400, True)

                path = f"/transactions/abort/{SLOW}"
                wrong = await client.post(path, data={"name": "other"})
                assert (wrong.status_code, "to abort its transaction" in wrong.text) == (400, True)
                unknown = await client.post("/transactions/abort/new", data={"name": "new"})
                assert unknown.status_code == 404
                done = await client.post(path, data={"name": SLOW})
                assert (done.status_code, SLOW in done.text) == (200, False)

                hung = {"name": "orders", "partition": "1", "from": "0"}
                for form in ({**hung, "name": "x"}, {**hung, "from": "7"}):
                    assert (await client.post(HUNG, data=form)).status_code == 400
                done = await client.post(HUNG, data=hung)
                assert done.status_code == 200
                assert "Nothing blocks them in orders" in done.text

    asyncio.run(run())
