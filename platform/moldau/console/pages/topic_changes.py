"""Changes of several topics at once: each is shown before it is made, and what was shown is made.

Invariants: records that come after a preview stay. A topic that was deleted and made anew since
stays as it is: the form below a preview has the ids of its topics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from moldau.client import Admin
from moldau.client.admin.configs import Resource, ResourceType
from moldau.console.access.roles import Role
from moldau.console.access.routes import Row, change
from moldau.console.connection import Connection
from moldau.console.pages.messages import topic_path
from moldau.console.pages.previews import (
    Effect,
    Form,
    Preview,
    check_typed,
    given,
    preview_page,
)
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.errors import MoldauError
from moldau.errors.amounts import counted
from moldau.errors.codes import KafkaError
from moldau.ids import format_uuid
from moldau.link.metadata import Topic
from moldau.operations import settings, topics
from moldau.operations.plan import Action, PlanStep

_Make: TypeAlias = Callable[[Admin, Topic], Awaitable[None]]
PATH: Final = "/change-topics"
TOPICS_MAX: Final = 100
_TOPIC: Final = "topic:"
"""Before the name of a chosen topic: the field has the id that a preview has shown, or _CHOSEN."""
_CHOSEN: Final = "1"
_BEFORE: Final = "before:"
_DELETE, _EMPTY, _SET = "delete", "empty", "set"
WAYS: Final[Mapping[str, tuple[str, str, Role]]] = {
    _DELETE: ("Delete", "delete topics", Role.ADMIN),
    _EMPTY: ("Empty", "empty topics", Role.ADMIN),
    _SET: ("Set a setting of", "set a setting of topics", Role.OPERATOR),
}
"""The title, the action of the table of routes, and the role of each way."""


class TopicChanges:
    """The endpoints that change chosen topics."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer

    def rows(self) -> list[Row]:
        """Return the rows of the table of routes."""
        made = {_DELETE: self.delete, _EMPTY: self.empty, _SET: self.set}
        return [
            Row("POST", f"{PATH}/plan", self.plan, Role.OPERATOR, is_look=True),
            *(
                change(f"{PATH}/{way}", made[way], action, role)
                for way, (_, action, role) in WAYS.items()
            ),
        ]

    async def plan(self, request: Request) -> Response:
        """Show what a change of the chosen topics does; change nothing."""
        form = await form_of(request)
        way, names = form.get("way", ""), _names(form)
        if way not in WAYS:
            raise BadForm(f"way: {', '.join(WAYS)}")
        admin = await self._connection.admin()
        found = await admin.describe_topics(names)
        fields = {f"{_TOPIC}{name}": _id_of(found[name]) for name in names}
        if way == _DELETE:
            steps = await topics.plan_deletion(admin, names)
        elif way == _EMPTY:
            steps = await topics.plan_emptying(admin, names)
            for step in steps:
                for index, offset in topics.emptied(step).items():
                    fields[f"{_BEFORE}{step.name}:{index}"] = str(offset)
        else:
            wanted = {given(form, "setting"): form.get("value", "").strip()}
            steps = await topics.plan_settings(admin, names, wanted)
            fields |= {"setting": given(form, "setting"), "value": form.get("value", "").strip()}
        refused = {each.name for each in steps if each.action is Action.REFUSE}
        fields = {
            name: text for name, text in fields.items() if name.removeprefix(_TOPIC) not in refused
        }
        preview = _preview(way, steps)
        back = topic_path(names[0]) if form.get("one") else "/topics"
        if form.get("one"):
            fields["one"] = "1"
        return preview_page(self._renderer, request, preview, Form(f"{PATH}/{way}", back, fields))

    async def delete(self, request: Request) -> Response:
        """Delete the topics that a preview has shown."""
        form = await form_of(request)
        names = _names(form)
        check_typed(form, _typed(names))

        async def make(admin: Admin, topic: Topic) -> None:
            if topic.has_id:
                failed = (await admin.delete_topics_by_id([topic.topic_id]))[topic.topic_id]
                if failed is not None:
                    raise failed
            else:
                await admin.delete_topic(topic.name)
            self._connection.lists.change(lambda listed: listed.drop(topic.name))

        return await self._each(form, names, make, "/topics")

    async def empty(self, request: Request) -> Response:
        """Delete the records that a preview has shown."""
        form = await form_of(request)
        before: dict[str, dict[int, int]] = {}
        for field, text in form.items():
            name, _, index = field.removeprefix(_BEFORE).rpartition(":")
            if field.startswith(_BEFORE) and index.isdecimal() and text.isdecimal():
                before.setdefault(name, {})[int(index)] = int(text)
        if not before:
            raise BadForm("there is nothing to delete")
        check_typed(form, _typed(list(before)))

        async def make(admin: Admin, topic: Topic) -> None:
            await topics.empty(admin, topic.name, before[topic.name])

        back = topic_path(next(iter(before))) if form.get("one") else "/topics"
        return await self._each(form, list(before), make, back)

    async def set(self, request: Request) -> Response:
        """Set what a preview has shown."""
        form = await form_of(request)
        wanted = {given(form, "setting"): form.get("value", "").strip()}

        async def make(admin: Admin, topic: Topic) -> None:
            await settings.change(admin, Resource(ResourceType.TOPIC, topic.name), wanted)

        return await self._each(form, _names(form), make, "/topics")

    async def _each(
        self, form: Mapping[str, str], names: Sequence[str], make: _Make, back: str
    ) -> Response:
        """Make a change of each topic. Raise BadForm with those that were not changed."""
        admin, failed = await self._connection.admin(), []
        found = await admin.describe_topics(names)
        for name in names:
            try:
                await make(admin, _shown(found[name], form.get(f"{_TOPIC}{name}", _CHOSEN)))
            except MoldauError as error:
                failed.append(f"{name}: {error}")
        if failed:
            done = len(names) - len(failed)
            raise BadForm(
                f"changed {done} of {counted(len(names), 'topic')}. Not: {'; '.join(failed)}"
            )
        return see(back)


def _id_of(topic: Topic | KafkaError) -> str:
    """Return the id of a topic, as a form has it."""
    if isinstance(topic, KafkaError) or not topic.has_id:
        return _CHOSEN
    return format_uuid(topic.topic_id)


def _shown(topic: Topic | KafkaError, shown_id: str) -> Topic:
    """Return a topic with the id that was shown. Raise MoldauError if it is another one now."""
    if isinstance(topic, KafkaError):
        raise topic
    if shown_id not in (_CHOSEN, _id_of(topic)):
        raise MoldauError("it was deleted and made anew since it was shown: look at it again")
    return topic


def _names(form: Mapping[str, str]) -> list[str]:
    """Return the chosen topics. Raise BadForm if there are none, or too many."""
    names = [each.removeprefix(_TOPIC) for each in form if each.startswith(_TOPIC)]
    if not names:
        raise BadForm("choose at least one topic: tick its box")
    if len(names) > TOPICS_MAX:
        raise BadForm(f"choose {TOPICS_MAX} topics at most")
    return names


def _typed(names: Sequence[str]) -> str:
    """Return what has to be typed before topics lose records."""
    return names[0] if len(names) == 1 else counted(len(names), "topic")


def _preview(way: str, steps: Sequence[PlanStep]) -> Preview:
    doing = [each for each in steps if each.action not in (Action.REFUSE, Action.KEEP)]
    effects = []
    for step in doing:
        if way != _SET:
            note = f" ({step.note})" if step.note else ""
            effects.append(Effect("gone", f"{step.kind} of {step.name}{note}"))
            continue
        for each in step.changes:
            if each.before is not None:
                effects.append(Effect("gone", f"{step.name}: {each.what} = {each.before}"))
            effects.append(Effect("new", f"{step.name}: {each.what} = {each.after}"))
    notes = [
        f"{each.name} stays as it is: {each.remark or 'it has that already'}"
        for each in steps
        if each not in doing
    ]
    if doing and way == _EMPTY:
        notes.append("What comes after this preview stays. Groups go on at the new beginning.")
    title = f"{WAYS[way][0]} {_typed([each.name for each in doing])}" if doing else WAYS[way][0]
    typed = "" if way == _SET or not doing else _typed([each.name for each in doing])
    return Preview(title, tuple(effects), tuple(notes), typed=typed)
