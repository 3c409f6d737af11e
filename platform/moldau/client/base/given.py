"""What a user gives a client, sorted: settings to resolve, objects, and what has no effect.

A setting without effect is logged once, when the client starts, and never ignored in silence; what
would be dangerous to ignore is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from moldau.client.base.user_code import LOG
from moldau.client.settings.every_client import (
    BOOTSTRAP_CONTROLLERS,
    WITHOUT_MEANING_TO_ADMINS,
    why_without_meaning,
)
from moldau.client.settings.rows import ADMIN_SETTINGS, OF_PRODUCERS_AND_CONSUMERS
from moldau.client.settings.unused import UNUSED
from moldau.config import BadSettings, Problem, Secret, Setting, Settings, SettingTable, overrides
from moldau.link.login.oauth_settings import oauth
from moldau.link.security_settings import unneeded

_NO_MAPPING: Final = (
    "settings are a mapping by Kafka's names, not a {}: load_settings(path) makes one of a file"
)


def settings_in(given: Mapping[str, object] | None) -> Mapping[str, object]:
    """Settings by name; TypeError with advice for anything else, such as a path."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(_NO_MAPPING.format(type(given).__name__))
    return given


class GivenSettings:
    """What a client was given, sorted: settings to resolve, objects, and what changes nothing."""

    def __init__(
        self,
        given: Mapping[str, object],
        options: Mapping[str, object],
        *,
        objects: Collection[str] = (),
        without_meaning: Mapping[str, str] | None = None,
        of_others: Collection[str] = (),
    ) -> None:
        """`given` by Kafka's names, `options` with underscores: these win. Values of `objects` need
        not be text. `without_meaning` has no effect on this client. `of_others` are settings of
        other clients: passed over in `given`, as a file may be theirs too, and refused in
        `options`."""
        given = settings_in(given)
        own = without_meaning or {}
        passed_over = [name for name in given if name in of_others and name not in own]
        named = {name: value for name, value in given.items() if name not in passed_over}
        named |= {name.replace("_", "."): value for name, value in options.items()}
        self.settings: dict[str, object] = {}
        self.objects: dict[str, Any] = {}
        self._notices: list[str] = []
        unused: dict[str, object] = {}
        for name, value in named.items():
            why = own.get(name) or why_without_meaning(name)
            if why is not None:
                self._notices.append(f"{name} has no effect: {why}")
                unused[name] = value
            elif name in (*objects, oauth.name) and not _is_text(value):
                self.objects[name] = value
            else:
                self.settings[name] = value
        _check_unused(unused)
        if passed_over:
            names = ", ".join(passed_over)
            self._notices.append(f"passed over what only other clients have: {names}")

    def of(self, row: Setting[Any], settings: Settings) -> Any:
        """The object that was given for a row, else its text."""
        return self.objects.get(row.name, settings[row])

    def log_notices(self, client: str, settings: Settings) -> None:
        """Logs what has no effect."""
        for notice in (*unneeded(self.settings, settings), *self._notices, *settings.notices):
            LOG.warning("%s: %s", client, notice)


def _check_unused(given: Mapping[str, object]) -> None:
    """BadSettings for values that Kafka refuses, though they change nothing here."""
    named = {name: value for name, value in given.items() if UNUSED.find(name) is not None}
    refuse_bytes(named)
    UNUSED.resolve(overrides({name: text_of(value) for name, value in named.items()}))


def refuse_bytes(named: Mapping[str, object]) -> None:
    """Bytes are refused, as their encoding is unknown. They are not shown: they may be a
    password."""
    reason = "is bytes, and a setting is text: decode it first"
    problems = [Problem(name, reason) for name, value in named.items() if _has_bytes(value)]
    if problems:
        raise BadSettings(problems)


def _has_bytes(value: object) -> bool:
    several = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(each, bytes | bytearray | memoryview) for each in several)


def text_of(value: object) -> str | None:
    """A setting as a file would have it, of what a program gives."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Iterable):
        return ",".join(map(str, value))
    return str(value)


def _is_text(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str)


def resolve(
    table: SettingTable, given: Mapping[str, object], options: Mapping[str, object]
) -> Settings:
    """The settings of a client from a mapping by Kafka's names and from keywords, which win.
    BadSettings has all that is wrong with them."""
    named = {**given, **{name.replace("_", "."): value for name, value in options.items()}}
    refuse_bytes(named)
    _refuse_controllers(named)
    return table.resolve(overrides({name: text_of(value) for name, value in named.items()}))


def _refuse_controllers(named: dict[str, object]) -> None:
    """Before bootstrap.servers is reported missing."""
    if named.pop(BOOTSTRAP_CONTROLLERS, None) in (None, "", [], ()):  # Kafka's default
        return
    reason = (
        "controllers are not asked directly, brokers pass on what is for them: give "
        "bootstrap.servers instead"
    )
    raise BadSettings([Problem(BOOTSTRAP_CONTROLLERS, reason)])


def admin_settings(
    given: Mapping[str, object], options: Mapping[str, object]
) -> tuple[GivenSettings, Settings]:
    """The settings of a client that has none of its own, as an Admin."""
    sorted_ = GivenSettings(
        given,
        options,
        without_meaning=WITHOUT_MEANING_TO_ADMINS,
        of_others=OF_PRODUCERS_AND_CONSUMERS,
    )
    return sorted_, resolve(ADMIN_SETTINGS, sorted_.settings, {})
