"""Rules, users and quotas on the page, and which rule decides."""

from __future__ import annotations

import asyncio

import pytest

from moldau.testing import EmbeddedBroker
from tests.console.guarded import GUARDED, allow
from tests.console.shown import browser

pytestmark = pytest.mark.real

ASKED = "/rights?type=TOPIC&user="
ANSWERS = {
    f"{ASKED}alice&operation=DESCRIBE&name=orders": "<b>Allowed</b>: by the rule: ALLOW",
    f"{ASKED}alice&operation=READ&name=orders-old": "<b>Denied</b>: by the rule: DENY",
    f"{ASKED}bob&operation=READ&name=orders": "it has rules (1), and none allows it",
    f"{ASKED}bob&operation=WRITE&name=other": "no rule is about it",
    "/rights?type=CLUSTER&user=bob&operation=ALTER": "no rule is about it",
    f"{ASKED}bob&operation=READ": "give both a user and the name",
    "/rights?operation=FLY": "operation: READ",
    "/rights?type=CAR": "type: TOPIC",
}


def test_rules_users_and_quotas_and_the_rule_that_decides() -> None:
    async def run() -> None:
        async with EmbeddedBroker(settings=GUARDED) as broker:
            await allow(broker.bootstrap_servers)
            async with browser(broker.bootstrap_servers) as client:
                page = (await client.get("/rights")).text
                for text in ("ord*", "SHA_512, 8,192 iterations", "producer_byte_rate", "shop"):
                    assert text in page, text
                assert "1,000,000" in page
                assert "all others" in page
                assert "There is no such rule" in (await client.get("/rights?q=nothing")).text
                for path, text in ANSWERS.items():
                    assert text in (await client.get(path)).text, path

    asyncio.run(run())


def test_a_cluster_without_rules_says_so() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, browser(broker.bootstrap_servers) as client:
            page = await client.get("/rights?user=alice&name=orders")
            assert (page.status_code, "The rules are not known" in page.text) == (200, True)

    asyncio.run(run())
