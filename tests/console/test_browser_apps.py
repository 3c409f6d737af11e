"""Pages of apps, pipelines and dead letters in a real browser: by look, by keyboard, and axe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.app import app
from tests.console.dead import NAME, PAGE, broken_records, sink
from tests.console.pipeline_stub import status
from tests.console.screen import chromium, screen
from tests.console.shots import LOOKS, Shown, looked_at, without_findings
from tests.console.worker import worker

pytestmark = [pytest.mark.real, pytest.mark.deep]

PAGES: Final = (
    "/streams",
    "/streams/words",
    "/streams/words/stores/counts",
    "/streams/words/stores/minutes",
    "/pipelines",
    "/pipelines/words",
    f"/connectors/{NAME}",
    PAGE,
)


ASKED: Final = "document.addEventListener('htmx:beforeRequest', () => (window.asked = true))"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    chromium()
    with asyncio.Runner() as runner:
        at = Shown(runner)
        life = _life(at, tmp_path_factory.mktemp("apps"))
        runner.run(anext(life))
        yield at
        runner.run(life.aclose())


async def _life(at: Shown, folder: Path) -> Any:
    async with (
        EmbeddedBroker() as broker,
        RealRuntime("beside") as runtime,
        app(runtime, broker.bootstrap_servers, folder / "state") as words,
        status(runtime) as pipeline,
        worker(runtime, broker, folder) as connect,
    ):
        at.servers = broker.bootstrap_servers
        await broken_records(at.servers)
        await sink(connect, at.servers, folder)
        more = {
            "streams_urls": f"words={words}",
            "pipeline_urls": f"words={pipeline}",
            "connect_url": connect,
        }
        async with screen(at.servers, **more) as at.screen:
            yield


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_without_findings_of_axe(shown: Shown, look: str) -> None:
    looked_at(shown, PAGES, look)


def test_dead_letters_are_replayed_and_a_key_is_looked_up_with_the_keyboard(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            await page.goto(f"/connectors/{NAME}")
            await page.get_by_role("link", name="Dead letters").press("Enter")
            await page.get_by_label("Replay offset 0 of partition 0").press("Space")
            await page.get_by_role("button", name="those ticked").press("Enter")
            await page.get_by_role("heading", name="Preview of the replay").wait_for()
            await without_findings(page, "preview")
            await page.get_by_role("button", name="Replay 1").press("Enter")
            await page.get_by_text("Replayed 1 record").wait_for()
            await page.goto("/streams/words/stores/counts")
            await page.get_by_label("Key", exact=True).focus()
            await page.keyboard.type("w07")
            await page.keyboard.press("Enter")
            await page.wait_for_url("**key=w07**")
            await page.get_by_role("cell", name="w07").wait_for()
            assert await page.get_by_role("cell", name="w08").count() == 0

    shown.runner.run(run())


def test_a_page_that_is_live_keeps_what_a_key_has_reached(shown: Shown) -> None:
    async def run() -> None:
        async with shown.screen.page() as page:
            async with page.expect_response("**/streams/words/live"):
                await page.goto("/streams/words")
            await page.get_by_text("0/s read").first.wait_for(state="attached")
            store = page.get_by_role("link", name="counts", exact=True)
            await store.focus()
            await page.keyboard.press("Tab")
            reached = page.get_by_role("link", name="minutes", exact=True)
            await page.evaluate(ASKED)
            async with asyncio.timeout(60):
                while not await page.evaluate("window.asked"):
                    pass
            assert await reached.evaluate("each => each === document.activeElement")

    shown.runner.run(run())
