"""The forms that change rules, users and quotas: a preview, then the change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from moldau.console.changes import see
from moldau.console.connection import Connection
from moldau.console.previews import Form, preview_page
from moldau.console.rendering import Renderer, form_of
from moldau.console.rights_changes import (
    Fields,
    QuotaChange,
    RightsChange,
    RuleChange,
    UserChange,
)
from moldau.console.roles import Role
from moldau.console.routes import Row, change

if TYPE_CHECKING:
    from moldau.console.routes import Endpoint

PAGE: Final = "/rights"

Read = Callable[[Fields], RightsChange]

KINDS: Final[dict[str, Read]] = {
    "rule": RuleChange.of,
    "user": UserChange.of,
    "quota": QuotaChange.of,
}


class RightsForms:
    """The endpoints of these forms."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    def rows(self) -> list[Row]:
        """Return their rows, two of each kind."""
        rows = []
        for kind, read in KINDS.items():
            path = f"{PAGE}/{kind}"
            rows += [
                Row("POST", f"{path}/plan", self._plan(path, read), Role.ADMIN, is_look=True),
                change(path, self._change(read), f"change a {kind}", Role.ADMIN),
            ]
        return rows

    def _plan(self, path: str, read: Read) -> Endpoint:
        async def plan(request: Request) -> Response:
            found = read(await form_of(request))
            preview = await found.preview(await self._connection.admin())
            form = Form(path, PAGE, found.fields())
            return preview_page(self._renderer, request, preview, form)

        return plan

    def _change(self, read: Read) -> Endpoint:
        async def make(request: Request) -> Response:
            form = await form_of(request)
            await read(form).make(await self._connection.admin(), form)
            return see(PAGE)

        return make
