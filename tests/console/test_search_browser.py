"""A user finds one order of many in a real browser: by keyboard, on a phone, and by a link."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pytest

from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.link.metadata import TopicPartition
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.orders import ONE, WHERE, send_orders
from tests.console.screen import chromium, screen
from tests.console.shots import BYTES_MAX, LOOKS, SIZE, Shown, looked_at, without_findings
from tests.registry.served import instance

if TYPE_CHECKING:
    from playwright.async_api import Route

TYPED: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["NEW", "PAID"]}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
INVOICE: Final = json.dumps(
    {
        "type": "record",
        "name": "Invoice",
        "fields": [
            {"name": "due", "type": {"type": "int", "logicalType": "date"}},
            {"name": "sent", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "total",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
        ],
    }
)
PAGES: Final = (
    "/topics",
    "/topics/orders",
    "/topics/orders/readers",
    "/topics/typed/messages",
    "/brokers/1",
)
SPARE: Final = 20
"""Records of a topic of its own for the test that empties one: tests run in any order."""
pytestmark = [pytest.mark.real, pytest.mark.deep]


@pytest.fixture(scope="module")
def shown() -> Iterator[Shown]:
    chromium()
    with asyncio.Runner() as runner:
        at = Shown(runner)
        life = _life(at)
        runner.run(anext(life))
        yield at
        runner.run(life.aclose())


async def _life(at: Shown) -> Any:
    async with (
        EmbeddedBroker() as broker,
        RealRuntime("beside") as runtime,
        instance(runtime, broker) as (answers, _),
    ):
        at.servers = broker.bootstrap_servers
        await send_orders(at.servers)
        async with Admin(bootstrap_servers=at.servers) as admin:
            await admin.create_topic(NewTopic("typed", 1))
            await admin.create_topic(NewTopic("invoices", 1))
            await admin.create_topic(NewTopic("emptied", 1))
        async with Producer(bootstrap_servers=at.servers) as producer:
            for number in range(SPARE):
                await producer.send("emptied", b"%d" % number)
            await producer.flush()
        await answers.register("typed-value", TYPED)
        await answers.register("invoices-value", INVOICE)
        at.registry = str(answers.http.base_url)
        async with screen(at.servers, schema_registry_url=at.registry) as at.screen:
            yield


@pytest.mark.parametrize("look", LOOKS)
def test_one_order_is_found_with_the_keyboard(shown: Shown, look: str) -> None:
    async def run() -> None:
        async with shown.screen.page(**LOOKS[look]) as page:
            await page.goto("/topics/orders/messages", wait_until="load")
            assert 0 < await page.evaluate(SIZE) < BYTES_MAX
            await page.get_by_role("searchbox", name="Where").focus()
            await page.keyboard.type(WHERE)
            await page.keyboard.press("Enter")
            row = page.locator("#rows tr", has_text=f'"id": {ONE}')
            await row.wait_for()
            await page.get_by_text("Looked at 30,000 records.").wait_for()
            assert await page.locator("#rows tr").count() == 1
            await row.locator("summary").focus()
            await page.keyboard.press("Enter")
            assert await row.get_by_text("NL", exact=True).is_visible()
            await without_findings(page, look)
            address = page.url
            assert "where=value.total" in address
            await page.goto("/topics")
            await page.goto(address)
            await row.wait_for()

    shown.runner.run(run())


def test_an_answer_about_a_search_that_another_one_replaced_is_dropped(shown: Shown) -> None:
    """It has no place on the page, which htmx takes for an error."""
    asks = '<div id="progress" hx-get="/held" hx-trigger="load" hx-target="this">reads</div>'
    late = {"HX-Retarget": "#progress", "HX-Reswap": "outerHTML"}

    async def run() -> None:
        async with shown.screen.page() as page:
            held: asyncio.Queue[Route] = asyncio.Queue()
            await page.route("**/held", held.put)
            await page.route("**/messages?*held*", lambda route: route.fulfill(body=asks))
            await page.goto("/topics/orders/messages", wait_until="load")
            where = page.get_by_role("searchbox", name="Where")
            await where.fill("held")
            await where.press("Enter")
            route = await held.get()
            await where.fill(WHERE)
            await where.press("Enter")
            await page.locator("#rows tr", has_text=f'"id": {ONE}').wait_for()
            async with page.expect_event("requestfinished", lambda each: each == route.request):
                await route.fulfill(body=asks, headers=late)
            await page.evaluate("new Promise(resolve => setTimeout(resolve))")
            assert "reads" not in await page.locator("#progress").inner_text()

    shown.runner.run(run())


def test_pages_lead_back_and_forth(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/topics/orders/messages")
            first = await page.locator("#rows").inner_text()
            await page.get_by_role("link", name="Older").press("Enter")
            await page.get_by_role("link", name="Newer").wait_for()
            assert await page.locator("#rows").inner_text() != first
            await page.get_by_role("link", name="Newer").press("Enter")
            await page.get_by_role("link", name="Newer").wait_for(state="detached")
            assert await page.locator("#rows").inner_text() == first

    shown.runner.run(run())


@pytest.mark.parametrize("look", LOOKS)
def test_pages_around_a_topic_are_without_findings_of_axe(shown: Shown, look: str) -> None:
    looked_at(shown, PAGES, look)


def test_a_record_is_sent_from_fields_and_found_with_its_schema(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page(**LOOKS["phone"]) as page:
            await page.goto("/topics/typed/messages")
            await page.get_by_text("Produce a record").press("Enter")
            await page.get_by_label("id (long)").fill("7")
            await page.get_by_label("state (enum)").select_option("PAID")
            await page.get_by_role("button", name="Send").press("Enter")
            await page.locator("#rows summary").press("Enter")
            await page.get_by_role("link", name="typed-value 1").wait_for()
            await page.get_by_role("link", name="Copy into the form").press("Enter")
            assert await page.get_by_label("id (long)").input_value() == "7"

    shown.runner.run(run())


@pytest.mark.parametrize("look", LOOKS)
def test_a_date_a_time_and_a_decimal_are_typed_as_people_write_them(
    shown: Shown, look: str
) -> None:
    refused = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
    given = {"due": "2026-11-30", "sent": "2026-11-30T10:15:00+01:00", "total": "12.50"}

    async def run() -> None:
        async with shown.screen.page(logged=[refused], **LOOKS[look]) as page:
            await page.goto("/topics/invoices/messages")
            await page.get_by_text("Produce a record").press("Enter")
            await without_findings(page, look)
            for name, text in {**given, "due": "30.11.2026"}.items():
                await page.locator(f"input[name='v.{name}']").fill(text)
            await page.get_by_role("button", name="Send").press("Enter")
            await page.get_by_text("due: 30.11.2026 is no date; an example: 2026-11-30").wait_for()
            await page.go_back()
            await page.get_by_text("Produce a record").press("Enter")
            for name, text in given.items():
                await page.locator(f"input[name='v.{name}']").fill(text)
            await page.get_by_role("button", name="Send").press("Enter")
            await page.locator("#rows summary").first.press("Enter")
            await page.get_by_role("link", name="Copy into the form").first.press("Enter")
            assert await page.locator("input[name='v.due']").input_value() == "2026-11-30"
            assert await page.locator("input[name='v.total']").input_value() == "12.50"

    async def read() -> Any:
        settings = {"schema.registry.url": shown.registry, "value.deserializer": "avro"}
        async with Consumer({"bootstrap.servers": shown.servers, **settings}) as consumer:
            consumer.assign([TopicPartition("invoices", 0)])
            await consumer.seek_to_beginning()
            return (await consumer.poll(30))[0].records[0].value

    shown.runner.run(run())
    assert shown.runner.run(read()) == {
        "due": date(2026, 11, 30),
        "sent": datetime(2026, 11, 30, 9, 15, tzinfo=UTC),
        "total": Decimal("12.50"),
    }


def test_a_topic_is_emptied_after_a_preview(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/topics")
            await page.get_by_label("Choose emptied").press("Space")
            await page.get_by_role("button", name="Preview").press("Enter")
            await page.get_by_text(f"records of emptied ({SPARE} records at most)").wait_for()
            await without_findings(page, "empty")
            await page.get_by_label("Type its name").fill("emptied")
            await page.get_by_role("button", name="Empty emptied").press("Enter")
            await page.wait_for_url("**/topics")
            await page.goto("/topics/emptied/messages")
            await page.get_by_text("No message is here").wait_for()

    shown.runner.run(run())
