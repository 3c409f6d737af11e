"""The console in a real browser: every page by look, by keyboard and by a reader's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.client import Producer
from moldau.console import refresher
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.guarded import GUARDED, allow
from tests.console.open_ends import SLOW, UNVERIFIED, leave_open
from tests.console.screen import chromium, screen
from tests.console.shots import LOOKS, Shown, looked_at, without_findings
from tests.console.shown import EXACT, use
from tests.console.worker import QUOTED, SOURCE, worker
from tests.registry.served import USER, USER_2, instance

pytestmark = [pytest.mark.real, pytest.mark.deep]

PAGES: Final = (
    "/",
    "/risks",
    "/topics",
    "/topics/orders",
    "/topics/orders/messages",
    "/topics/orders/settings",
    "/groups",
    "/groups/billing",
    "/transactions?topic=pending",
    "/rights?user=alice&name=orders",
    "/schemas",
    "/schemas/users-value",
    "/new-schema",
    "/connectors",
    f"/connectors/{QUOTED}",
    "/new-connector",
    f"/new-connector?class={SOURCE}",
    f"/change-connector/{QUOTED}",
    "/topics/none",
)
PATIENCE_S: Final = 120.0
MISSING: Final = "Failed to load resource: the server responded with a status of 404 (Not Found)"
"""What the browser logs of an address that is not there."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    chromium()
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(refresher, "LOOK_MS", 1)  # lines of lag come with the second round
        at = Shown(runner)
        life = _life(at, tmp_path_factory.mktemp("lines"))
        runner.run(anext(life))
        yield at
        runner.run(life.aclose())


async def _life(at: Shown, folder: Path) -> Any:
    async with (
        EmbeddedBroker(settings={**GUARDED, **UNVERIFIED}) as broker,
        RealRuntime("beside") as runtime,
        instance(runtime, broker) as (answers, _),
        worker(runtime, broker, folder) as connect,
    ):
        at.servers = broker.bootstrap_servers
        await use(at.servers)
        await allow(at.servers)
        await leave_open(at.servers, "pending")
        for schema in (USER, USER_2):
            await answers.register("users-value", schema)
        url = str(answers.http.base_url)
        more = {"schema_registry_url": url, "connect_url": connect}
        async with screen(at.servers, **more) as at.screen:
            yield


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_without_findings_of_axe(shown: Shown, look: str) -> None:
    looked_at(shown, PAGES[:-1], look)


def test_topics_are_searched_while_one_types_and_with_the_keyboard_alone(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/topics")
            await page.keyboard.press("Tab")
            await page.keyboard.press("Enter")
            assert page.url.endswith("#main"), "the first key leads past the menu"
            await page.get_by_label("Name contains").focus()
            await page.keyboard.type("nothing")
            await page.get_by_text("No topic has this in its name").wait_for()
            for _ in "nothing":
                await page.keyboard.press("Backspace")
            await page.get_by_role("link", name="orders").wait_for()
            await page.get_by_role("link", name="orders").press("Enter")
            await page.wait_for_url("**/topics/orders/messages")

    shown.runner.run(run())


def test_a_topic_is_made_and_deleted_with_its_name_typed(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/topics")
            await page.get_by_text("New topic").click()
            await page.get_by_label("Name", exact=True).fill("passing")
            await page.get_by_role("button", name="Create").click()
            await page.wait_for_url("**/topics/passing")
            await page.get_by_text("Delete this topic").click()
            await page.get_by_label("Type its name").fill("passing")
            await page.get_by_role("button", name="Delete it for ever").click()
            await page.wait_for_url("**/topics")
            await page.get_by_role("link", name="orders").wait_for()
            assert await page.get_by_text("passing").count() == 0

    shown.runner.run(run())


def test_a_transaction_that_hangs_is_ended_after_its_topic_was_typed(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/transactions?topic=pending")
            await page.get_by_text("End it here").click()
            await page.get_by_label("Type pending").fill("pending")
            await page.get_by_role("button", name="Abort it in this partition").click()
            await page.get_by_text("End it here").wait_for(state="detached")
            await page.get_by_text("Abort", exact=True).click()
            await page.get_by_label(f"Type {SLOW}").fill(SLOW)
            await page.get_by_role("button", name="Abort it, and fence its producer").click()
            await page.get_by_text("No transaction is open").wait_for()

    shown.runner.run(run())


def test_rights_and_schemas_are_changed_after_their_previews(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/rights")
            await page.get_by_role("button", name="Set the password").click()
            await page.get_by_role("heading", name="Set the password of alice").wait_for()
            await without_findings(page, "password")
            await page.get_by_role("link", name="Leave it as it is").click()
            await page.get_by_text("New rule").click()
            new = page.locator("details", has_text="New rule")
            for label, text in (("User", "bob"), ("Name, or * for all", "orders")):
                await new.get_by_label(label, exact=True).fill(text)
            await new.get_by_role("button", name="Preview").click()
            await page.get_by_text("ALLOW User:bob READ topic:orders").wait_for()
            await without_findings(page, "rule")
            await page.get_by_role("button", name="Add a rule").click()
            await page.get_by_role("cell", name="User:bob").wait_for()
            await page.goto("/schemas/users-value")
            await page.get_by_text("Change the compatibility level").click()
            await page.get_by_label("Level").select_option("FULL")
            await page.get_by_role("button", name="Preview").first.click()
            await page.get_by_text("+ users-value: FULL").wait_for()
            await page.get_by_role("button", name="Set the compatibility level").click()
            await page.get_by_text("FULL", exact=True).first.wait_for()

    shown.runner.run(run())


def test_a_connector_is_paused_and_resumed(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto(f"/connectors/{QUOTED}")
            for does, then in (("Pause", "Resume"), ("Resume", "Pause")):
                await page.get_by_role("button", name=does).click()
                button = page.get_by_role("button", name=then)
                async with asyncio.timeout(PATIENCE_S):
                    while not await button.count():  # the worker acts a moment later
                        await page.reload()

    shown.runner.run(run())


def test_a_connector_is_made_with_the_keyboard_after_its_mistakes_were_shown(
    shown: Shown, tmp_path: Path
) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/connectors")
            await page.get_by_role("link", name="New connector").press("Enter")
            await page.get_by_role("link", name=SOURCE).press("Enter")
            await page.get_by_role("textbox", name="Name required").focus()
            await page.keyboard.type("typed")
            await page.get_by_role("button", name="Check").press("Enter")
            await page.locator("[aria-invalid=true]").first.wait_for()
            await without_findings(page, "wrong")
            for setting, text in (("topic", "typed"), ("file", str(tmp_path / "none"))):
                await page.locator(f'[name="s.{setting}"]').fill(text)
            await page.get_by_role("button", name="Create").press("Enter")
            await page.wait_for_url("**/connectors/typed")
            await page.get_by_role("link", name="Change the settings").press("Enter")
            await page.wait_for_url("**/change-connector/typed")
            assert await page.locator('[name="s.topic"]').input_value() == "typed"

    shown.runner.run(run())


def test_offsets_are_changed_after_a_preview(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto("/groups/billing")
            await page.locator(".drawn canvas").wait_for()
            await page.get_by_role("button", name="Preview").click()
            await page.get_by_text("reads 2 again").wait_for()
            await without_findings(page, "plan")
            await page.get_by_role("button", name="Change these offsets").click()
            await page.wait_for_url("**/groups/billing")
            await page.get_by_role("cell", name="0", exact=True).first.wait_for()

    shown.runner.run(run())


def test_a_followed_topic_shows_new_records_and_every_digit(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page(logged=[MISSING]) as page:
            await page.goto("/topics/orders/messages")
            async with page.expect_response("**/tail*"):
                await page.get_by_role("button", name="Follow").click()
            async with Producer(bootstrap_servers=shown.servers) as producer:
                text = page.locator("tr.fresh").get_by_text("<b>new</b>")
                async with asyncio.timeout(PATIENCE_S):
                    while not await text.count():  # the first ones may come before it follows
                        value = f'{{"n": {EXACT}, "t": "<b>new</b>"}}'.encode()
                        await producer.send_and_wait("orders", value, partition=0)
            assert EXACT in await page.locator("tr.fresh").first.inner_text()
            await page.get_by_role("button", name="Stop").click()
            await page.get_by_role("button", name="Follow").wait_for()
            await page.route("**/tail*", lambda route: route.fulfill(status=404))
            async with page.expect_console_message(lambda said: said.text == MISSING):
                await page.get_by_role("button", name="Follow").click()
            await page.get_by_text("It cannot be followed: load the page again").wait_for()
            await page.get_by_role("button", name="Follow").wait_for()

    shown.runner.run(run())
