"""A user sees in a real browser when a lag began to grow, with a console that was just started."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from moldau.testing import EmbeddedBroker
from tests.console.observed import GREW, fill, observed
from tests.console.screen import chromium, screen
from tests.console.shots import BYTES_MAX, LOOKS, SIZE, Shown, looked_at
from tests.console.shown import use

pytestmark = [pytest.mark.real, pytest.mark.deep]
PAGES: Final = ("/", "/brokers/1", "/topics/orders", "/groups/billing")


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
    async with EmbeddedBroker() as broker, observed(broker) as (url, server):
        at.servers = broker.bootstrap_servers
        await use(at.servers)
        await fill(broker, server)
        async with screen(at.servers, node_metrics_urls=url) as at.screen:
            yield


def test_the_chart_of_a_group_shows_the_minute_from_which_its_lag_grew(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page(viewport={"width": 1280, "height": 900}) as page:
            await page.goto("/groups/billing")
            plot = page.locator(".u-over")
            await plot.wait_for()
            box = await plot.bounding_box()
            assert box is not None
            value = page.locator("figcaption b")
            assert await value.inner_text() == "99"

            async def at(part: float) -> str:
                """The value that the caption shows for a place of the picture."""
                await page.mouse.move(box["x"] + box["width"] * part, box["y"] + box["height"] / 2)
                return await value.inner_text()

            grew = (60 - 8 * 4) / 60  # a reading each 15 s, of a quarter of an hour
            assert await at(grew - 0.1) == "3"
            assert int(await at(grew + 0.05)) in range(6, 16)
            assert int(await at(0.99)) > 90
            await page.get_by_text("As numbers").click()
            began = f"{datetime.fromtimestamp(GREW / 1000, UTC):%m-%d %H:%M:%S}"
            rows = await page.locator("#charts tbody tr").all_inner_texts()
            values = {row.split("\t")[0]: row.split("\t")[1] for row in rows}
            assert values[began] == "3.0"
            assert max(when for when, value in values.items() if value == "3.0") == began

    shown.runner.run(run())


def test_without_a_script_the_pictures_and_numbers_are_there(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page(java_script_enabled=False) as page:
            for path in PAGES:
                await page.goto(path)
                await page.locator("svg.chart polyline").first.wait_for(state="attached")
                assert await page.locator(".drawn").count() == 0

    shown.runner.run(run())


@pytest.mark.parametrize("look", LOOKS)
def test_pages_with_charts_are_small_and_without_findings_of_axe(shown: Shown, look: str) -> None:
    looked_at(shown, PAGES, look)

    async def run() -> None:
        async with shown.screen.page(**LOOKS[look]) as page:
            await page.goto("/topics/orders", wait_until="load")
            assert await page.locator(".drawn canvas").count() == 4
            assert 0 < await page.evaluate(SIZE) < BYTES_MAX

    shown.runner.run(run())
