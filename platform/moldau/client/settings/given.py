"""Settings that mean the same to every client: followed, known without effect, or refused.

Together with the rows in `settings` these are all settings that Kafka 4.3's own clients have, so a
.properties file that Java reads is read here too. What means nothing is told once, when the client
starts, and never ignored in silence; what would be dangerous to ignore is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from moldau.client.settings.unused import (
    UNUSED,
    UNUSED_BY_ADMINS,
    UNUSED_BY_ALL,
    UNUSED_BY_CONSUMERS,
    reasons,
)
from moldau.client.settings.user_code import LOG
from moldau.config import (
    INT,
    LIST,
    LONG,
    BadSettings,
    Problem,
    Secret,
    Setting,
    Settings,
    at_least,
    overrides,
)
from moldau.link.security_settings import WITHOUT_EFFECT, oauth, unneeded

metrics_sample_window_ms = Setting(
    "metrics.sample.window.ms",
    LONG,
    30_000,
    "How long one sample of a rate or an average lasts.",
    check=at_least(1),
)
metrics_num_samples = Setting(
    "metrics.num.samples",
    INT,
    2,
    "How many samples a rate or an average is made of.",
    check=at_least(1),
)
interceptor_classes = Setting(
    "interceptor.classes",
    LIST,
    (),
    "What sees records on their way, and what became of them: plugins of the group "
    "moldau.interceptors, dotted names of classes, or (in Python) objects.",
)

METRICS_ROWS: Final = (metrics_sample_window_ms, metrics_num_samples)
RECORD_ROWS: Final = (interceptor_classes, *METRICS_ROWS)

WITHOUT_MEANING: Final[Mapping[str, str]] = reasons(UNUSED_BY_ALL)
"""Settings that are known and change nothing, each with the reason."""
WITHOUT_MEANING_PREFIXES: Final = WITHOUT_EFFECT
BOOTSTRAP_CONTROLLERS: Final = "bootstrap.controllers"
WITHOUT_CONTROLLERS: Final[Mapping[str, str]] = {
    BOOTSTRAP_CONTROLLERS: "only an Admin may want controllers"
}
"""What producers and consumers pass over, and an Admin refuses."""
WITHOUT_MEANING_TO_CONSUMERS: Final[Mapping[str, str]] = {
    **WITHOUT_CONTROLLERS,
    **reasons(UNUSED_BY_CONSUMERS),
}
WITHOUT_MEANING_TO_ADMINS: Final[Mapping[str, str]] = reasons(UNUSED_BY_ADMINS)


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


class Given:
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

    def tell(self, client: str, settings: Settings) -> None:
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


def why_without_meaning(name: str) -> str | None:
    """Why a setting changes nothing for any client, if that is so."""
    for prefix, why in WITHOUT_MEANING_PREFIXES.items():
        if name.startswith(prefix):
            return why
    return WITHOUT_MEANING.get(name)


def _is_text(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(each, str) for each in value)
    return value is None or isinstance(value, str)
