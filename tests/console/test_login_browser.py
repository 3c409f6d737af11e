"""A login in a real browser: at the provider's page and back, by role, and out again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.console.login import console
from tests.console.screen import opened
from tests.console.shots import LOOKS, WIDER

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.real, pytest.mark.deep]


async def without_findings(page: Page) -> None:
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is missing")
    found = (await axe.Axe().run(page)).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    assert await page.evaluate(WIDER) <= 0


def test_a_person_logs_in_works_by_its_role_and_logs_out() -> None:
    lines: list[str] = []

    async def run() -> None:
        async with console(lines) as (address, at, _), opened() as browser:
            context = await browser.new_context(base_url=address, **LOOKS["phone"])
            page = await context.new_page()
            await page.goto("/topics/orders/messages")
            await page.get_by_label("User").fill("bob")
            await page.get_by_role("button", name="Allow").click()
            await page.wait_for_url(f"{address}/topics/orders/messages")
            (cookie,) = await context.cookies()
            assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
            assert await page.evaluate("document.cookie") == ""
            await without_findings(page)
            await page.get_by_text("Produce a record").click()
            await page.get_by_role("textbox", name="Value").fill("by bob")
            await page.get_by_role("button", name="Send").click()
            await page.locator("#rows").get_by_text("by bob").first.wait_for()
            await page.goto("/topics/orders")
            assert await page.get_by_text("Delete this topic").count() == 0
            await page.goto("/nowhere")
            await without_findings(page)
            await page.get_by_role("button", name="Log out").click()
            await page.get_by_role("heading", name="You are logged out").wait_for()
            assert await context.cookies() == []
            await without_findings(page)
            await page.goto("/topics")
            await page.get_by_label("User").fill("zoe")
            await page.get_by_role("button", name="Allow").click()
            await page.get_by_role("heading", name="That is not allowed").wait_for()
            await without_findings(page)
            await context.close()
        assert any('"user":"bob"' in each and '"produce a record"' in each for each in lines)
        assert not [each for each in at.tokens if each in "".join(lines)]

    asyncio.run(run())
