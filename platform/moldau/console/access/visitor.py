"""What a visitor may do, and the audit log: each change, and each look at messages.

Invariants: a console is read-only unless it is started for changes, or a file gives roles; each
attempt at a change gives one line, with its result; what a record holds, what a connector is given,
and passwords of any kind are never in it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from starlette.requests import Request

from moldau.console.access.roles import UNKNOWN, Login, Policy, Role, Visitor, of_role
from moldau.console.access.routes import Row
from moldau.console.clusters import path_of
from moldau.deferred import dataclass
from moldau.link.http.protection import CHECKED
from moldau.logging import Logger

if TYPE_CHECKING:
    from starlette.types import Scope

    from moldau.link.http.protection import HttpProtection
    from moldau.runtime.http_door import DoorRefusal

_HIDDEN: Final = frozenset(("key", "value", "headers"))
"""The fields of a produced record."""
FIELD: Final = "v."
"""Before the names of a form's fields that are fields of a produced record."""
SETTING: Final = "s."
"""Before the names of a form's fields that are settings of a connector: they may be secrets."""
MORE: Final = "more"
"""The field with more of them, a line each."""
KEPT: Final = "k."
"""Before the names of settings that are kept if their fields are empty."""
SEEN: Final = "seen"
"""The field with what a form was made of: a digest of a connector's settings, versions."""
PASSWORD: Final = "password"  # noqa: S105 - the name of a field
"""The beginning of the names of fields with a password of the cluster."""
_SHOWN: Final = 200
_REFUSED: Final = (401, 403)
_FAILED: Final = 400
BROKEN_OFF: Final = 0
"""In place of a status: there is no answer, and the change may be made or not."""
OWN: Final = of_role(Role.ADMIN)
"""The console itself, which warms its pages up."""


@dataclass(frozen=True, slots=True)
class Access:
    """What the visitors of one console may do. Without a policy all have the same role."""

    is_admin: bool = False
    """Whether visitors may change the cluster, if there is no policy."""
    audit: Logger | None = None
    policy: Policy | None = None
    records_looks: bool = False
    """Whether each look at messages gives a line, too."""

    def visitor(self, request: Request) -> Visitor:
        """Return the visitor of a request. One that a login has set is kept."""
        known: Visitor | None = getattr(request.state, "visitor", None)
        if known is None:
            login = getattr(request.state, "login", None) or _checked_login(request)
            known = self.of(login)
            request.state.visitor = known
        return known

    def of(self, login: Login) -> Visitor:
        """Return the visitor with this login."""
        if self.policy is not None:
            return self.policy.visitor(login)
        return of_role(Role.ADMIN if self.is_admin else Role.VIEWER, login)

    def record(self, request: Request, row: Row, status: int) -> None:
        """Write the line of an attempt at a change, or of a look at messages."""
        visitor = self.visitor(request)
        is_recorded = row.is_change or (bool(row.action) and self.records_looks)
        if self.audit is None or not is_recorded or visitor is OWN:
            return
        kind = "change" if row.is_change else "look"
        event, result = _outcome(status)
        form: Mapping[str, str] = getattr(request.state, "form", {})
        self.audit.info(
            f"{kind} {event}",
            user=visitor.login.user,
            role=visitor.role.word if visitor.role else UNKNOWN,
            address=UNKNOWN if request.client is None else request.client.host,
            action=row.action,
            resource=request.path_params.get("name") or form.get("name", ""),
            path=path_of(request),
            form=urlencode(_shown(row, form or request.query_params)),
            result=result,
            status=status,
        )

    def record_refusal(
        self, prove: Callable[[Request], Login | None], scope: Scope, refusal: DoorRefusal
    ) -> None:
        """Write the line of a form that the door has refused. `prove` returns the login."""
        if self.audit is None or scope["method"] != "POST":
            return
        request = Request(scope)
        event, result = _outcome(refusal.status)
        self.audit.info(
            f"change {event}",
            user=(prove(request) or Login()).user,
            address=UNKNOWN if request.client is None else request.client.host,
            path=scope["path"],
            reason=refusal.text,
            result=result,
            status=refusal.status,
        )


def proven_by(by: HttpProtection) -> Callable[[Request], Login | None]:
    """Return the function that finds the login in the header of a request."""

    def prove(request: Request) -> Login | None:
        given = request.headers.get("authorization", "")
        return login_of(given) if by.asks_login and by.admits(given) else None

    return prove


def _outcome(status: int) -> tuple[str, str]:
    """Return the word for an event, and its result."""
    if status == BROKEN_OFF:
        return "broken off", "unknown"
    if status < _FAILED:
        return "made", "done"
    return "refused", "refused" if status in _REFUSED else "failed"


def _checked_login(request: Request) -> Login:
    """Return the login of the Authorization header that a gate has checked. Without a gate there is
    none: a header that was not checked says nothing."""
    checked: str | None = getattr(request.state, CHECKED, None)
    return Login() if checked is None else login_of(checked)


def _shown(row: Row, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that may be seen."""
    shown = {
        name: text[:_SHOWN]
        for name, text in fields.items()
        if not (row.has_messages and name in _HIDDEN)
        and not name.startswith((FIELD, SETTING, KEPT, PASSWORD))
        and name not in (MORE, SEEN)
    }
    settings = [name for name, text in fields.items() if name.startswith(SETTING) and text]
    if settings:
        shown["settings"] = ",".join(name.removeprefix(SETTING) for name in settings)
    return shown


def login_of(authorization: str) -> Login:
    """Return the login of an Authorization header that was found right."""
    kind, _, given = authorization.partition(" ")
    if kind.lower() != "basic":
        return Login("token")
    return Login(b64decode(given).decode("utf-8", "replace").partition(":")[0])
