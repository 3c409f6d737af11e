"""Connectors and their stored offsets, over the REST API of a Connect worker, moldau's or Java's.

Invariant: no secret is in a step. A worker shows its secrets as `[hidden]`; that counts as equal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from urllib.parse import quote, urlencode

from moldau.config.hiding import HIDDEN, has_secret_name, hidden
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import BadGiven, MoldauError
from moldau.operations.plan import Action, Change, PlanStep
from moldau.runtime.http_client import BlockingHttpClient, HttpTimeouts, NoAnswer, base_url

if TYPE_CHECKING:
    import ssl

KIND: Final = "connector"
TIMEOUT_S: Final = 100.0
_TOO_HIGH: Final = 400
STOPPED: Final = "STOPPED"
_SECRET: Final = deferred_pattern(r"password|secret|token|credential|jaas|private|passphrase", re.I)
_USER_INFO: Final = deferred_pattern(r"(?<=://)[^/\s]+@")
_PASSWORD: Final = "PASSWORD"  # noqa: S105 - the name of a type
Config = Mapping[str, str]


class RestRefused(MoldauError):
    """The worker rejected a request (`status` says how), or cannot be reached (`status` 0)."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


class Rest:
    """The REST API of one Connect worker, which forwards requests to the leader itself."""

    def __init__(
        self,
        url: str,
        option: str,
        headers: Config | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Take a URL, which may have user:password@; messages say which `option` gives it. Raise
        BadGiven. `tls` is for https; None trusts the authorities of the system."""
        self._option = option
        try:
            self.url, login = base_url(url)
        except ValueError as error:
            raise BadGiven(f"{option}: {error}") from None
        self._headers = {"Content-Type": "application/json", **(headers or {}), **login}
        self._client = BlockingHttpClient(HttpTimeouts(TIMEOUT_S, TIMEOUT_S), tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout_s: float = TIMEOUT_S,
        **query: str,
    ) -> Any:
        """Send a request and return the JSON answer. Raise RestRefused with the worker's reason."""
        content = None if body is None else json.dumps(body).encode()
        url = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        waits = HttpTimeouts(timeout_s, timeout_s)
        try:
            found = self._client.request(method, url, content, self._headers, waits=waits)
        except NoAnswer as error:
            raise RestRefused(
                f"no Connect worker answers at {self.url}: {error}; start one with "
                f"`moldau connect start`, or name another with {self._option}"
            ) from None
        if found.status >= _TOO_HIGH:
            raise RestRefused(_message(found.text) or f"HTTP {found.status}", found.status)
        return found.json()

    def act(self, name: str, request: ConnectorRequest) -> None:
        """Send the request of an action on a connector. Raise RestRefused."""
        path = connector_path(name, request.part)
        self.ask(request.method, path, timeout_s=TIMEOUT_S, **request.query)


def connector_path(name: str, part: str = "") -> str:
    """Return the path of a connector in the API."""
    return f"/connectors/{quote(name, safe='')}{part}"


@dataclass(frozen=True, slots=True)
class ConnectorRequest:
    """The request for an action on a connector; `part` follows the path of the connector."""

    method: str
    part: str
    query: Mapping[str, str] = field(default_factory=dict)


PAUSE: Final = ConnectorRequest("PUT", "/pause")
RESUME: Final = ConnectorRequest("PUT", "/resume")
STOP: Final = ConnectorRequest("PUT", "/stop")
"""The tasks end, and offsets can be changed then."""
DELETE: Final = ConnectorRequest("DELETE", "")


def restart(*, tasks: bool = True, only_failed: bool = False) -> ConnectorRequest:
    """Return the request to restart a connector, and its tasks, or only what has failed of it."""
    query = {"includeTasks": str(tasks).lower(), "onlyFailed": str(only_failed).lower()}
    return ConnectorRequest("POST", "/restart", query)


def restart_task(number: int) -> ConnectorRequest:
    """Return the request to restart one task."""
    return ConnectorRequest("POST", f"/tasks/{number}/restart")


def without_secret(key: str, value: str) -> str:
    """Return the value of a setting without secrets: hidden whole if its name tells of one, else
    with the passwords of addresses hidden. A worker of Apache Kafka answers with all of them."""
    if not value:
        return value
    is_secret = has_secret_name(key) or _SECRET.search(key)
    return HIDDEN if is_secret else _USER_INFO.sub(f"{HIDDEN}@", hidden(value))


def _message(text: str) -> str:
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()
    return str(body.get("message", text)) if isinstance(body, dict) else text


def plan_connectors(
    wanted: Mapping[str, Config], found: Mapping[str, Config], *, prunes: bool
) -> list[PlanStep]:
    """Return the steps from the connectors that are found to those that are wanted."""
    steps = [compare(name, config, found.get(name)) for name, config in wanted.items()]
    if prunes:
        gone = sorted(found.keys() - wanted.keys())
        steps += [PlanStep(Action.REMOVE, KIND, name, note="its offsets stay") for name in gone]
    return steps


def compare(name: str, config: Config, found: Config | None) -> PlanStep:
    """Return the step for one connector. Its changes have the secrets of the config."""
    if found is None:
        unknown = sorted(key for key, value in config.items() if HIDDEN in value)
        if unknown:
            note = (
                f"{', '.join(unknown)}: {HIDDEN} stands in the place of a secret: write a "
                "reference, such as ${env:NAME}"
            )
            return PlanStep(Action.REFUSE, KIND, name, note=note)
        changes = [Change(key, None, value) for key, value in config.items() if key != "name"]
        return PlanStep(Action.CREATE, KIND, name, tuple(changes))
    changes = [
        Change(key, found.get(key), config.get(key))
        for key in dict.fromkeys((*config, *found))
        if not _is_same(config.get(key), found.get(key))
    ]
    return PlanStep(Action.UPDATE if changes else Action.KEEP, KIND, name, tuple(changes))


def _is_same(wanted: str | None, found: str | None) -> bool:
    """Whether two values are equal, as far as hidden secrets let one see."""
    if wanted is None or found is None:
        return wanted is found
    return HIDDEN in (wanted, found) or wanted == found or hidden(wanted) == hidden(found)


def without_secrets(step: PlanStep, passwords: Collection[str]) -> PlanStep:
    """Return the step with its secrets hidden: `passwords` are the keys that the plugin names."""
    return PlanStep(
        step.action,
        step.kind,
        step.name,
        tuple(
            Change(each.what, *(_shown(each.what, text, passwords) for text in _values(each)))
            for each in step.changes
        ),
        step.note,
    )


def _values(change: Change) -> tuple[str | None, str | None]:
    return change.before, change.after


def _shown(key: str, value: str | None, passwords: Collection[str]) -> str | None:
    if value is None or ("${" in value and HIDDEN not in value):
        return value
    return HIDDEN if key in passwords else without_secret(key, value)


def exported(found: Mapping[str, Config]) -> dict[str, Any]:
    """Return the section of a document with these connectors, without secrets."""
    return {
        name: {key: _shown(key, value, ()) for key, value in config.items() if key != "name"}
        for name, config in sorted(found.items())
    }


def found_connectors(rest: Rest) -> dict[str, dict[str, str]]:
    """Return the configs of all connectors of the worker's cluster."""
    return configs_of(rest.ask("GET", "/connectors", expand="info"))


def configs_of(answer: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the configs in an answer about all connectors."""
    return {name: dict(each["info"]["config"]) for name, each in answer.items()}


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """How far a connector has come in one partition of its source or of a topic."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any]


class NotStopped(RestRefused):
    """Offsets change only while their connector is stopped."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(
            f"offsets change only while the connector is stopped: `moldau connect stop {name}` "
            "before, and `resume` after it",
            status,
        )


def stored_offsets(rest: Rest, name: str) -> list[StoredOffset]:
    """Return the stored offsets of a connector."""
    found = rest.ask("GET", connector_path(name, "/offsets"))["offsets"]
    return [StoredOffset(each["partition"], each["offset"]) for each in found]


def set_offsets(rest: Rest, name: str, offsets: Any) -> str:
    """Store the offsets of a request's body. Return what the worker says, or raise NotStopped."""
    return _change_offsets(rest, "PATCH", name, offsets)


def reset_offsets(rest: Rest, name: str) -> str:
    """Forget all offsets of a connector. Return what the worker says, or raise NotStopped."""
    return _change_offsets(rest, "DELETE", name, None)


def _change_offsets(rest: Rest, method: str, name: str, body: Any) -> str:
    try:
        return str(rest.ask(method, connector_path(name, "/offsets"), body)["message"])
    except RestRefused as error:
        if _state(rest, name) in (STOPPED, None):
            raise
        raise NotStopped(name, error.status) from error


def _state(rest: Rest, name: str) -> str | None:
    """Return the state of a connector; None if the worker gives none."""
    try:
        return str(rest.ask("GET", connector_path(name, "/status"))["connector"]["state"])
    except RestRefused:
        return None


@dataclass
class Connectors:
    """Plans and makes the connectors of a document."""

    kind: ClassVar = KIND
    rest: Rest
    wanted: Mapping[str, Config]
    prunes: bool
    found: Mapping[str, Config] = field(default_factory=dict)

    def plan(self) -> list[PlanStep]:
        """Return the steps. The worker has checked the configs, apart from their topics."""
        self.found = found_connectors(self.rest)
        steps = plan_connectors(self.wanted, self.found, prunes=self.prunes)
        return [self._checked(each) for each in steps]

    def _checked(self, step: PlanStep) -> PlanStep:
        if step.action not in (Action.CREATE, Action.UPDATE):
            return step
        config = self._config(step.name)
        path = f"/connector-plugins/{quote(config['connector.class'], safe='')}/config/validate"
        try:
            answer = self.rest.ask("PUT", path, config)
        except RestRefused as error:
            return PlanStep(Action.REFUSE, KIND, step.name, note=str(error))
        reasons = [
            f"{each['value']['name']}: {' '.join(str(error).split())}"
            for each in answer["configs"]
            for error in each["value"]["errors"]
            if HIDDEN not in str(config.get(each["value"]["name"], ""))
        ]
        if reasons:
            return PlanStep(Action.REFUSE, KIND, step.name, note="; ".join(reasons))
        passwords = {
            each["definition"]["name"]
            for each in answer["configs"]
            if each["definition"].get("type") == _PASSWORD
        }
        return without_secrets(step, passwords)

    def _config(self, name: str) -> dict[str, str]:
        """Return the wanted config; a hidden secret is as the worker shows it."""
        found = self.found.get(name, {})
        return {
            key: found.get(key, value) if HIDDEN in value else value
            for key, value in self.wanted[name].items()
        }

    def do(self, step: PlanStep) -> None:
        """Do a step."""
        if step.action is Action.REMOVE:
            self.rest.act(step.name, DELETE)
        else:
            path = connector_path(step.name, "/config")
            self.rest.ask("PUT", path, self._config(step.name))
