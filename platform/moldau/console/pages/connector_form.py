"""The form of a connector's settings, made of what its worker says about them.

The worker validates a config and answers with the definition of each setting: its group, meaning,
default and errors, also for the parts that the config names (transforms, converters). So the form
fits any connector of any Kafka Connect, and nothing of it is known here. Settings that have no
field are lines of a text.

Invariant: a secret that the worker has is never sent to the browser, also if the worker shows it,
as those of Apache Kafka do. An empty field of a password keeps it, as the form marks; in all other
fields and lines HIDDEN stands in the place of a secret. A value that comes back as it was shown is
not changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.config.hiding import HIDDEN
from moldau.console.access.visitor import KEPT, MORE, SEEN, SETTING
from moldau.console.apis.connect import ConnectApi, ConnectRefused
from moldau.console.connection import Connection
from moldau.console.pages.connectors import connect_of
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.console.pages.secret_settings import SecretSettings, says_where
from moldau.deferred import dataclass
from moldau.operations.connectors import connector_path, without_secret

NAME: Final = "name"
CLASS: Final = "connector.class"
_OTHERS: Final = "Settings"
_AGAIN: Final = (
    "The settings name another server or class, where no kept secret is sent: write these again"
)
_MEANWHILE: Final = (
    "The connector was changed meanwhile. Load its form anew, or send this one again to set these "
    "as they stand here"
)
_NUMBERS: Final = ("INT", "LONG", "SHORT", "DOUBLE")
_CONFLICT: Final = 409
_INVALID: Final = (400, _CONFLICT, 422)


@dataclass(frozen=True, slots=True)
class Field:
    """One setting."""

    name: str
    label: str
    doc: str
    kind: str
    is_required: bool
    default: str
    choices: list[str]
    errors: list[str]
    value: str
    is_kept: bool
    """Whether it is a secret that the worker has and a browser does not get."""

    @property
    def is_open(self) -> bool:
        """Whether a person should see it at once."""
        return self.is_required or bool(self.errors or self.value or self.is_kept)


@dataclass(slots=True)
class Group:
    """Settings that belong together."""

    title: str
    fields: list[Field] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether a person should see one of them at once."""
        return any(each.is_open for each in self.fields)

    @property
    def is_required(self) -> bool:
        """Whether one of them must be given. Such groups stand first."""
        return any(each.is_required for each in self.fields)


@dataclass(frozen=True, slots=True)
class Form:
    """All of it: `problems` are errors of settings that have no field."""

    groups: list[Group]
    more: str
    problems: list[str]
    error_count: int


@dataclass(frozen=True, slots=True)
class Before:
    """The config that a connector has, and the names of its secrets beside those that tell it."""

    config: Mapping[str, str] = field(default_factory=dict)
    secrets: Collection[str] = ()
    seen: str = ""
    """The digest of the settings that the form in a browser was made of."""

    def of(self, name: str) -> str:
        """Return the value of a setting; empty if it has none."""
        return self.config.get(name, "")

    def visible(self, name: str, given: str) -> str:
        """Return a text of the form for the browser: what a person has just written as it is, what
        the worker has without secrets."""
        return self._shown(name) if given == self.of(name) else given

    def meant(self, name: str, text: str) -> str:
        """Return the value that a person means, which is that of before if the text was left as it
        was shown. A browser has its own ends of lines."""
        lines, seen, before = text.strip().splitlines(), self._shown(name).strip(), self.of(name)
        is_same = lines in (seen.splitlines(), [_in_a_line(seen)])
        return before if before and is_same else "\n".join(text.splitlines())

    @property
    def digest(self) -> str:
        """What tells whether the settings are still those that a browser was shown. It is of no
        secret, so it tells of none."""
        seen = [(name, self._shown(name)) for name in sorted(self.config)]
        return sha256(json.dumps(seen).encode()).hexdigest()

    def without(self, names: Collection[str]) -> Before:
        """Return the config without these settings, for the same form."""
        rest = {name: value for name, value in self.config.items() if name not in names}
        return replace(self, config=rest)

    def _shown(self, name: str) -> str:
        value = self.of(name)
        return HIDDEN if value and name in self.secrets else without_secret(name, value)


_NEW: Final = Before()


class Fault(NamedTuple):
    """Why a form comes back, and the status of the answer."""

    text: str
    status: int = 400


def form_from(answer: Mapping[str, Any], config: Mapping[str, str], before: Before) -> Form:
    """Return the form for the worker's answer to a config."""
    groups: dict[str, Group] = {}
    problems, known = [], {NAME, CLASS}
    for each in answer["configs"]:
        said, definition = each["value"], each.get("definition")
        name = str(said["name"])
        if definition is None or name in (NAME, CLASS):
            problems += [f"{name}: {without_secret('', text)}" for text in said.get("errors") or ()]
            continue
        if not said.get("visible", True) and name not in config:
            continue
        known.add(name)
        title = str(definition.get("group") or _OTHERS)
        made = _field(definition, said, config.get(name, ""), before)
        groups.setdefault(title, Group(title)).fields.append(made)
    others = {name: value for name, value in config.items() if name not in known}
    more = "\n".join(
        f"{name}={_in_a_line(before.visible(name, value))}" for name, value in others.items()
    )
    ordered = sorted(groups.values(), key=lambda each: not each.is_required)
    return Form(ordered, more, problems, int(answer.get("error_count", 0)))


def _field(
    definition: Mapping[str, Any], said: Mapping[str, Any], given: str, before: Before
) -> Field:
    name, default = str(definition["name"]), definition.get("default_value")
    is_secret = definition["type"] == "PASSWORD"
    value = "" if is_secret else given
    if definition["type"] not in ("BOOLEAN", *_NUMBERS):
        value = before.visible(name, value)
    choices = [str(each) for each in said.get("recommended_values") or ()]
    if definition["type"] == "BOOLEAN":
        choices = ["true", "false"]
    return Field(
        name=name,
        label=str(definition.get("display_name") or name),
        doc=str(definition.get("documentation") or ""),
        kind=str(definition["type"]),
        is_required=bool(definition.get("required")),
        default="" if default is None or is_secret else str(default),
        choices=choices,
        errors=[without_secret("", str(each)) for each in said.get("errors") or ()],
        value=value,
        is_kept=is_secret and bool(before.of(name)),
    )


def config_of(form: Mapping[str, str], before: Before) -> dict[str, str]:
    """Return the config that the fields say. Raise BadForm for a line that is none. An empty field
    is a setting that is not given, unless the form has marked it as a secret that is kept."""
    config = {}
    for key, value in form.items():
        name = key.removeprefix(SETTING)
        if key == name:
            continue
        if value.strip():
            config[name] = before.meant(name, value)
        elif before.of(name) and f"{KEPT}{name}" in form:
            config[name] = before.of(name)
    for name, value in _more_settings(form):
        config[name] = before.meant(name, value)
        if "\n" in before.of(name) and config[name] != before.of(name):
            raise BadForm(f"{name} has several lines, which this form cannot change")
    return config


def _more_settings(form: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line of the field for more. Raise BadForm for a line that is
    none."""
    for number, line in enumerate(form.get(MORE, "").splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise BadForm(f"more settings, line {number}: write NAME=VALUE")
        yield name.strip(), value.strip()


def misdirected(form: Mapping[str, str], config: Mapping[str, str], before: Before) -> list[str]:
    """Return the secrets that a form keeps, if its config names another server or class than
    before: the worker would send them there."""
    names = before.config.keys() | config.keys()
    if not any(says_where(each, before.of(each), config.get(each, "")) for each in names):
        return []
    lines = dict(_more_settings(form))
    found = []
    for name, value in config.items():
        text = lines.get(name, form.get(f"{SETTING}{name}", ""))
        is_marked = f"{KEPT}{name}" in form and not text.strip()
        if value == before.of(name) and (is_marked or HIDDEN in text):
            found.append(name)
    return sorted(found)


def _check_whole(config: Mapping[str, str], before: Before) -> None:
    """Raise BadForm for HIDDEN in place of a secret that is not kept. A worker might put one of
    another connector there."""
    for name, value in config.items():
        if HIDDEN in value and value != before.of(name):
            raise BadForm(f"{name}: write it whole, with what is {HIDDEN} now")


def _in_a_line(value: str) -> str:
    return value.replace("\n", "\\n")


def changes_of(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return what a worker is to change: None takes a setting away."""
    gone: dict[str, str | None] = {
        name: None for name in before if name not in after and name not in (NAME, CLASS)
    }
    changed = {name: value for name, value in after.items() if before.get(name) != value}
    return gone | changed


class ConnectorForms:
    """The endpoints that make and change a connector."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer
        self._secrets = SecretSettings()

    def _api(self) -> ConnectApi:
        return connect_of(self._connection)

    async def new(self, request: Request) -> Response:
        """Choose a class, then the form of its settings."""
        chosen = request.query_params.get("class", "").strip()
        if chosen:
            return await self._show(request, {CLASS: chosen})
        plugins = await self._api().ask("GET", "/connector-plugins")
        plugins = [each for each in plugins if each.get("type") in ("source", "sink")]
        plugins.sort(key=lambda each: (each["type"], each["class"]))
        return self._renderer.page(request, "connector_new.html", plugins=plugins)

    async def make(self, request: Request) -> Response:
        """Check the settings, or make the connector."""
        form = await form_of(request)
        name = form.get(NAME, "").strip()
        config = {CLASS: form.get(CLASS, "").strip(), **config_of(form, _NEW)}
        if not config[CLASS]:
            raise BadForm("choose the class of the connector first")
        _check_whole(config, _NEW)
        if form.get("does") == "check":
            return await self._show(request, config, name, is_checked=True)
        if not name:
            return await self._show(request, config, name, Fault("Give the connector a name."))
        try:
            await self._api().send("POST", "/connectors", {"name": name, "config": config})
        except ConnectRefused as error:
            if error.status not in _INVALID:
                raise
            return await self._show(request, config, name, Fault(str(error)))
        return see(f"/connectors/{quote(name, safe='')}")

    async def edit(self, request: Request) -> Response:
        """The form with the settings that the connector has."""
        name = request.path_params["name"]
        before = await self._before(name)
        return await self._show(request, before.config, name, before=before)

    async def change(self, request: Request) -> Response:
        """Check the settings, or give them to the connector."""
        form, name = await form_of(request), request.path_params["name"]
        before = await self._before(name)
        seen = form.get(SEEN, before.seen)
        config = {CLASS: before.of(CLASS), **config_of(form, before)}
        _check_whole(config, before)
        asked = misdirected(form, config, before)
        if asked:
            left = {key: value for key, value in config.items() if key not in asked}
            fault = Fault(f"{_AGAIN}: {', '.join(asked)}")
            before = replace(before.without(asked), seen=seen)
            return await self._show(request, left, name, fault, before=before)
        changes = changes_of(before.config, config)
        if changes and seen != before.seen:
            fault = Fault(f"{_MEANWHILE}: {', '.join(sorted(changes))}", _CONFLICT)
            return await self._show(request, config, name, fault, before=before)
        if form.get("does") == "check":
            return await self._show(request, config, name, is_checked=True, before=before)
        if changes:
            try:
                await self._api().send("PATCH", connector_path(name, "/config"), changes)
            except ConnectRefused as error:
                if error.status not in _INVALID:
                    raise
                fault = Fault(without_secret("", str(error)))
                return await self._show(request, config, name, fault, before=before)
        return see(f"/connectors/{quote(name, safe='')}")

    async def _before(self, name: str) -> Before:
        told = await self._api().ask("GET", connector_path(name, "/config"))
        config = {key: str(value) for key, value in told.items() if key != NAME}
        found = Before(config, await self._secrets.of(self._api(), config))
        return replace(found, seen=found.digest)

    async def _show(
        self,
        request: Request,
        config: Mapping[str, str],
        name: str = "",
        fault: Fault | None = None,
        *,
        is_checked: bool = False,
        before: Before = _NEW,
    ) -> Response:
        """The form of a config, with the worker's errors once a person has filled it in. `before`
        is of a connector that exists."""
        existing = name if before.config else ""
        path = f"/connector-plugins/{quote(config[CLASS], safe='')}/config/validate"
        answer = await self._api().send("PUT", path, {**config, NAME: name or "new"})
        form = form_from(answer, config, before)
        is_judged = is_checked or fault is not None
        return self._renderer.page(
            request,
            "connector_form.html",
            200 if fault is None else fault.status,
            form=form,
            existing=existing,
            given_name=name,
            connector_class=config[CLASS],
            problem="" if fault is None else fault.text,
            seen=before.seen,
            is_judged=is_judged,
            action=f"/change-connector/{quote(existing, safe='')}"
            if existing
            else "/new-connector",
        )
