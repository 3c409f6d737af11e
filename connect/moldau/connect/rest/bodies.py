"""Parses request bodies. Errors say what is wrong. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.herder.refusals import BadRequest
from moldau.connect.storage.keys import TargetState, load


def parse(body: bytes) -> Any:
    """Return the JSON of a body; None for an empty body. Raise BadRequest for any other text."""
    if not body.strip():
        return None
    try:
        return load(body)
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from None


def config_of(value: object, what: str = "the body") -> dict[str, str | None]:
    """Return a flat object of settings. Numbers and booleans become texts, as in Jackson."""
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be an object of settings")
    found: dict[str, str | None] = {}
    for name, each in value.items():
        if isinstance(each, dict | list):
            kind = "an object" if isinstance(each, dict) else "a list"
            raise BadRequest(f"the setting {name} must be a text, not {kind}")
        if isinstance(each, bool):
            each = str(each).lower()
        found[name] = None if each is None else str(each)
    return found


def create_request(value: object) -> tuple[str, dict[str, str | None], TargetState | None]:
    """Return name, config and initial state of a `POST /connectors`."""
    if not isinstance(value, dict):
        raise BadRequest('the body must be {"name": .., "config": {..}}')
    config = config_of(value.get("config"), '"config"')
    name = value.get("name") or config.get("name")
    if not isinstance(name, str) or not name.strip():
        raise BadRequest('"name" is missing: name the connector')
    name = name.strip()
    state = value.get("initial_state")
    if state is None:
        return name, named(name, config), None
    target = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED,
              "STOPPED": TargetState.STOPPED}.get(str(state).upper())  # fmt: skip
    if target is None:
        raise BadRequest(f'"initial_state" must be RUNNING, PAUSED or STOPPED, not {state}')
    return name, named(name, config), target


def named(name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the config with its name. Raise BadRequest if it contains another one."""
    given = config.get("name")
    if given is not None and given.strip() != name:
        raise BadRequest(
            f"Connector name configuration ({given}) doesn't match connector name in the URL "
            f"({name})"
        )
    return {**config, "name": name}


def flag(text: str | None) -> bool:
    """Return the boolean value of a query parameter; False if it is missing."""
    return text is not None and text.strip().lower() == "true"
