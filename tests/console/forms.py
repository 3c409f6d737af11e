"""The form below a preview, sent as a browser sends it."""

from __future__ import annotations

import html
import re
from typing import Final

import httpx

ACTION: Final = re.compile(r'<form (?:class="row" )?method="post" action="(/[^"]*)">\s*<input')
HIDDEN: Final = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


async def confirm(
    client: httpx.AsyncClient, preview: httpx.Response, **more: str
) -> httpx.Response:
    """Send the only form of a page with hidden fields, with these more."""
    page = preview.text.partition("<main")[2]
    (action,) = ACTION.findall(page)
    fields = {name: html.unescape(text) for name, text in HIDDEN.findall(page)}
    return await client.post(html.unescape(action), data={**fields, **more})
