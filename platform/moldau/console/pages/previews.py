"""What a change does, shown before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from moldau.console.access.visitor import PASSWORD
from moldau.console.pages.rendering import BadForm, Renderer
from moldau.deferred import dataclass


class Effect(NamedTuple):
    """A line of a preview: `kind` is "new" or "gone"."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a change does now. Without effects there is nothing to do, and a note says why."""

    title: str
    effects: tuple[Effect, ...]
    notes: tuple[str, ...] = ()
    asks_password: bool = False
    typed: str = ""
    """What has to be typed before the change is made."""

    @property
    def is_removal(self) -> bool:
        """Whether it only takes away."""
        return all(each.kind == "gone" for each in self.effects)


@dataclass(frozen=True, slots=True)
class Form:
    """The form below a preview, which makes the change."""

    action: str
    """The path that takes it."""
    back: str
    fields: Mapping[str, str]
    """The hidden ones: what was shown is what is made."""


def preview_page(renderer: Renderer, request: Request, plan: Preview, form: Form) -> Response:
    """Return the page of a preview."""
    return renderer.page(request, "preview.html", plan=plan, form=form, password=PASSWORD)


def given(form: Mapping[str, str], name: str) -> str:
    """Return a field that may not be empty. Raise BadForm."""
    value = form.get(name, "").strip()
    if not value:
        raise BadForm(f"{name}: this field is empty")
    return value


def check_typed(form: Mapping[str, str], name: str) -> None:
    """Raise BadForm if the form does not repeat the name of what it removes."""
    if form.get("typed", "").strip() != name:
        raise BadForm(f"type the name to remove it: {name}")
