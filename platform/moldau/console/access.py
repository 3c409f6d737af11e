"""Whether visitors may change the cluster, and the audit log of what they change.

Invariants: a console is read-only unless it is started for changes; each attempt at a change gives
one line, with its result; what a record holds and what a connector is given are never in it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request

from moldau.logging import Logger

_HIDDEN: Final = frozenset(("key", "value"))
"""The fields of a produced record."""
SETTING: Final = "s."
"""Before the names of a form's fields that are settings of a connector: they may be secrets."""
MORE: Final = "more"
"""The field with more of them, a line each."""
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class Access:
    """What the visitors of one console may do."""

    is_admin: bool = False
    """Whether they may change the cluster."""
    asks_login: bool = False
    """Whether they have shown a password or a token before they come here."""
    audit: Logger | None = None

    def record(self, request: Request, status: int) -> None:
        """Write the line of an attempt at a change."""
        if self.audit is None:
            return
        path = request.url.path
        fields: Mapping[str, str] = getattr(request.state, "form", {})
        is_record = path.endswith("/messages")
        shown = {
            name: text[:_SHOWN]
            for name, text in fields.items()
            if not (is_record and name in _HIDDEN) and not name.startswith(SETTING) and name != MORE
        }
        settings = [name for name, text in fields.items() if name.startswith(SETTING) and text]
        if settings:
            shown["settings"] = ",".join(name.removeprefix(SETTING) for name in settings)
        client = "-" if request.client is None else request.client.host
        self.audit.info(
            "change refused" if status >= 400 else "change made",
            user=self._user(request),
            client=client,
            path=path,
            form=urlencode(shown),
            status=status,
        )

    def _user(self, request: Request) -> str:
        """Return the name of a login that was checked."""
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if not self.asks_login:
            return "-"
        if kind.lower() != "basic":
            return "token"
        return b64decode(given).decode("utf-8", "replace").partition(":")[0]
