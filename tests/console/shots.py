"""How pages are looked at in a browser: light, dark, on a phone, and by the rules of axe."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Page

    from tests.console.screen import Screen

LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 375, "height": 812}},
}
WIDER: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
BROKEN: Final = """[...document.querySelectorAll("td:first-child")].flatMap((cell) => {
  const words = [];
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    for (const found of node.data.matchAll(/\\b[A-Za-z]{2,24}\\b/g)) {
      const range = document.createRange();
      range.setStart(node, found.index);
      range.setEnd(node, found.index + found[0].length);
      const tops = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
      if (tops.size > 1) words.push(found[0]);
    }
  }
  return words;
})"""
"""The words of first columns that stand in two lines."""
BYTES_MAX: Final = 300_000
"""What a first look at a page costs at most, with scripts and styles."""
SIZE: Final = """["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
    .reduce((sum, each) => sum + each.transferSize, 0)"""
SHOTS: Final = os.environ.get("MOLDAU_SCREENSHOTS")
"""A folder for pictures of every page, to look at."""


class Shown:
    """The screen, and the event loop on which it and the broker live."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self.runner = runner
        self.screen: Screen
        self.servers = ""
        self.registry = ""


async def shot(page: Page, look: str) -> None:
    """Take a picture of a page, if a folder for pictures is given."""
    if SHOTS is not None:
        name = page.url.split("/", 3)[3].partition("?")[0].replace("/", "-") or "cluster"
        await page.screenshot(path=Path(SHOTS) / f"{name}.{look}.png", full_page=True)


async def without_findings(page: Page, look: str) -> None:
    """Take a picture; axe finds nothing, and the page is no wider than the screen."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason="axe is missing")
    await shot(page, look)
    found = (await axe.Axe().run(page)).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == [], page.url
    assert await page.evaluate(WIDER) <= 0, f"{page.url} is wider than the screen"
    assert await page.evaluate(BROKEN) == [], f"{page.url} breaks words"


def looked_at(shown: Shown, paths: Iterable[str], look: str) -> None:
    """Look at all pages, with what they fold away."""

    async def run() -> None:
        async with shown.screen.page(**LOOKS[look]) as page:
            for path in paths:
                answer = await page.goto(path)
                assert answer is not None
                assert answer.ok, (path, await page.locator("main").inner_text())
                await page.evaluate(
                    "document.querySelectorAll('details').forEach(d => d.open = true)"
                )
                await without_findings(page, look)

    shown.runner.run(run())
