"""The connectors of a document, over the REST API of a Connect worker, moldau's or Java's.

Invariant: no secret is in a step. A worker shows its secrets as `[hidden]`; that counts as equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from urllib.parse import quote

from moldau.cli.connect_rest import Rest, RestRefused
from moldau.cli.plans import Action, Change, PlanStep
from moldau.config.hiding import HIDDEN, has_secret_name, hidden

KIND: Final = "connector"
_PASSWORD: Final = "PASSWORD"  # noqa: S105 - the name of a type
Config = Mapping[str, str]


def plan_connectors(
    wanted: Mapping[str, Config], found: Mapping[str, Config], *, prunes: bool
) -> list[PlanStep]:
    """Return the steps from the connectors that are found to those that are wanted."""
    steps = [_step(name, config, found.get(name)) for name, config in wanted.items()]
    if prunes:
        gone = sorted(found.keys() - wanted.keys())
        steps += [PlanStep(Action.REMOVE, KIND, name, note="its offsets stay") for name in gone]
    return steps


def _step(name: str, config: Config, found: Config | None) -> PlanStep:
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
    return HIDDEN if key in passwords or has_secret_name(key) else hidden(value)


def exported(found: Mapping[str, Config]) -> dict[str, Any]:
    """Return the section of a document with these connectors, without secrets."""
    return {
        name: {key: _shown(key, value, ()) for key, value in config.items() if key != "name"}
        for name, config in sorted(found.items())
    }


def found_connectors(rest: Rest) -> dict[str, dict[str, str]]:
    """Return the configs of all connectors of the worker's cluster."""
    answer = rest.ask("GET", "/connectors", expand="info")
    return {name: dict(each["info"]["config"]) for name, each in answer.items()}


class Connectors:
    """Plans and makes the connectors of a document."""

    kind = KIND

    def __init__(self, rest: Rest, wanted: Mapping[str, Config], *, prunes: bool) -> None:
        self._rest = rest
        self._wanted = wanted
        self._prunes = prunes
        self._found: Mapping[str, Config] = {}

    def plan(self) -> list[PlanStep]:
        """Return the steps. The worker has checked the configs, apart from their topics."""
        self._found = found_connectors(self._rest)
        steps = plan_connectors(self._wanted, self._found, prunes=self._prunes)
        return [self._checked(each) for each in steps]

    def _checked(self, step: PlanStep) -> PlanStep:
        if step.action not in (Action.CREATE, Action.UPDATE):
            return step
        config = self._config(step.name)
        path = f"/connector-plugins/{quote(config['connector.class'], safe='')}/config/validate"
        try:
            answer = self._rest.ask("PUT", path, config)
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
        found = self._found.get(name, {})
        return {
            key: found.get(key, value) if HIDDEN in value else value
            for key, value in self._wanted[name].items()
        }

    def do(self, step: PlanStep) -> None:
        """Do a step."""
        path = self._rest.connector(step.name)
        if step.action is Action.REMOVE:
            self._rest.ask("DELETE", path)
        else:
            self._rest.ask("PUT", f"{path}/config", self._config(step.name))
