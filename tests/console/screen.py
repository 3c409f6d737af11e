"""A real browser before a console of a test's broker: Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

from moldau.console.server import served
from moldau.runtime.real import RealRuntime

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_WAIT_MS: Final = 120_000.0
"""A page that is slow on a busy machine is no failure."""
_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(frozen=True, slots=True)
class Screen:
    """A browser, and the address of the console that it looks at."""

    browser: Browser
    address: str

    @asynccontextmanager
    async def page(self, *, logged: Sequence[str] = (), **look: Any) -> AsyncIterator[Page]:
        """A new page. It may not ask another host for anything, and logs these errors alone."""
        errors: list[str] = []
        async with await self.browser.new_context(base_url=self.address, **look) as context:
            context.set_default_timeout(_WAIT_MS)
            page = await context.new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on(
                "request",
                lambda request: (
                    None
                    if request.url.startswith((self.address, "data:", "blob:"))
                    else errors.append(request.url)
                ),
            )
            page.on(
                "console",
                lambda said: errors.append(said.text) if said.type == "error" else None,
            )
            yield page
            assert errors == list(logged)


def chromium() -> str:
    """Return the path of the browser; skip the test if there is none."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium on this machine (apt-get install chromium)")
    return found


@asynccontextmanager
async def screen(bootstrap: str, **more: str) -> AsyncIterator[Screen]:
    """The console of a cluster on a free port, and a browser. `more` are settings of the console,
    with underscores for dots."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    settings = {
        "bootstrap.servers": bootstrap,
        "default.api.timeout.ms": str(int(_WAIT_MS)),
        **given,
    }
    async with (
        RealRuntime("console") as runtime,
        served(runtime, settings, ("127.0.0.1", 0)) as address,
        opened() as browser,
    ):
        yield Screen(browser, address)


@asynccontextmanager
async def opened(*arguments: str) -> AsyncIterator[Browser]:
    """A browser, with further arguments of its command line."""
    path = chromium()
    playwright = pytest.importorskip("playwright.async_api", reason="playwright is missing")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=[*_ARGUMENTS, *arguments])
        try:
            yield browser
        finally:
            await browser.close()
