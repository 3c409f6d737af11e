"""Forms of a page, sent as a browser sends them."""

from __future__ import annotations

import html
import re
from typing import Final

import httpx2

ACTION: Final = re.compile(r'<form (?:class="row" )?method="post" action="(/[^"]*)">\s*<input')
HIDDEN: Final = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')
FIELD: Final = re.compile(r'<input[^>]*?name="([^"]*)"[^>]*?value="([^"]*)"', re.DOTALL)
AREA: Final = re.compile(r'<textarea[^>]*?name="([^"]*)"[^>]*>\n?(.*?)</textarea>', re.DOTALL)


def fields_of(page: str) -> dict[str, str]:
    """What a browser sends of a form that was left as it is."""
    found = dict(FIELD.findall(page)) | dict(AREA.findall(page))
    return {name: html.unescape(text).replace("\n", "\r\n") for name, text in found.items()}


async def confirm(
    client: httpx2.AsyncClient, preview: httpx2.Response, **more: str
) -> httpx2.Response:
    """Send the only form of a page with hidden fields, with these more."""
    page = preview.text.partition("<main")[2]
    (action,) = ACTION.findall(page)
    fields = {name: html.unescape(text) for name, text in HIDDEN.findall(page)}
    return await client.post(html.unescape(action), data={**fields, **more})
