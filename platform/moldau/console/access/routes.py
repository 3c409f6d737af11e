"""The rows of the console's table of routes: the address, what it needs, and what is recorded.

Each page and action is one row, made by one of four functions:

    look("/topics", pages.topics)                                    a page
    messages("/topics/{name}/messages", pages.messages, "read messages")   shows messages of a topic
    ask("/groups/{name:path}/plan", pages.plan_offsets)              a form that changes nothing
    change("/topics", pages.create_topic, "create a topic", Role.OPERATOR)

The table is the only place where roles are checked: a row lets a visitor in, or answers 403, before
its endpoint runs. A template asks the same table: `{% if may("create a topic") %}` hides a form.
The topic of a row about messages is `{name}`. An endpoint that finds the topic in another way calls
`check_topic(request, topic)` itself. No record is shown that has not been through
`visitor_of(request).mask(topic)`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.console.access.roles import Role, Visitor
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


STILL: Final = "is_still_in"
"""In the state of a request with a login: a function that tells whether that still holds."""
SESSION: Final = "session"
"""In the state of a request with a session: what names it, without being its id."""


@dataclass(frozen=True, slots=True)
class Row:
    """One route. `action` names what is recorded; it is empty if nothing is."""

    method: str
    path: str
    run: Endpoint
    needs: Role = Role.VIEWER
    action: str = ""
    has_messages: bool = False
    is_look: bool = False
    """Whether it only reads, though it is a form."""

    @property
    def is_change(self) -> bool:
        """Whether it changes the cluster."""
        return self.method == "POST" and bool(self.action) and not self.is_look


def look(path: str, run: Endpoint, needs: Role = Role.VIEWER) -> Row:
    """Return the row of a page."""
    return Row("GET", path, run, needs)


def messages(path: str, run: Endpoint, action: str) -> Row:
    """Return the row of a page with messages of the topic `{name}`. Each look is recorded."""
    return Row("GET", path, run, Role.VIEWER, action, has_messages=True)


def ask(path: str, run: Endpoint, action: str = "") -> Row:
    """Return the row of a form that changes nothing. With an action, each look is recorded."""
    return Row("POST", path, run, action=action, is_look=True)


def change(
    path: str, run: Endpoint, action: str, needs: Role, *, has_messages: bool = False
) -> Row:
    """Return the row of a form that changes the cluster. Each attempt is recorded.
    `has_messages` is for one that writes records to the topic `{name}`."""
    return Row("POST", path, run, needs, action, has_messages)


class NotAllowed(Exception):
    """A visitor's role, or the rules about messages, do not allow a request; the text says why."""


def visitor_of(request: Request) -> Visitor:
    """Return the visitor, as the guard of the route has found it."""
    found: Visitor = request.state.visitor
    return found


def is_still_in(request: Request) -> bool:
    """Whether the login of a request that goes on for long still holds."""
    asked: Callable[[], bool] | None = getattr(request.state, STILL, None)
    return asked is None or asked()


def session_of(request: Request) -> str:
    """Return what names the session of a request; an empty text if it has none."""
    name: str = getattr(request.state, SESSION, "")
    return name


def check_topic(request: Request, topic: str) -> None:
    """Raise NotAllowed if the visitor does not see the messages of a topic."""
    visitor = visitor_of(request)
    if not visitor.sees(topic):
        user = visitor.login.user
        raise NotAllowed(
            f"{user} does not see the messages of {topic}: no rule in the file of roles allows it"
        )


def check_masks(request: Request, source: str, target: str) -> None:
    """Raise NotAllowed if the visitor would see records of one topic with fewer masks once they
    are copied to another."""
    visitor = visitor_of(request)
    before, after = visitor.mask(source), visitor.mask(target)
    if before is not None and (after is None or not after.covers(before)):
        user = visitor.login.user
        raise NotAllowed(
            f"{target} does not mask all that {source} masks for {user}: choose a topic with the "
            "same masks, or ask an admin"
        )


def check_role(request: Request, row: Row) -> None:
    """Raise NotAllowed if the visitor's role is below what the row needs."""
    visitor = visitor_of(request)
    user = visitor.login.user
    if visitor.role is None:
        groups = ", ".join(sorted(visitor.login.groups)) or "none"
        raise NotAllowed(f"{user} is logged in and has no role here (its groups: {groups})")
    if not visitor.has(row.needs):
        what = row.action or "this page"
        held, needed = visitor.role.word, row.needs.word
        raise NotAllowed(f"{what} needs the role {needed}, and {user} has the role {held}")


def needs_of(rows: Iterable[Row]) -> dict[str, Role]:
    """Return the role that each action needs."""
    return {row.action: row.needs for row in rows if row.action}
