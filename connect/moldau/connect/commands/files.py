"""Reads connector configs from files: JSON, full (`{"name", "config"}`) or flat, or properties."""

from __future__ import annotations

import json
from collections.abc import Iterable

from moldau.cli.command import UsageError

Config = dict[str, str | None]


def load_connectors(paths: Iterable[str]) -> dict[str, Config]:
    """Return the configs by connector name. Raise UsageError for an invalid file."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    found: dict[str, Config] = {}
    for path in paths:
        name, config = parse_connector(path, files.read_text(absolute_path(path)))
        if name in found:
            raise UsageError(f"{path}: another file has a connector {name} already")
        found[name] = config
    return found


def parse_connector(path: str, text: str) -> tuple[str, Config]:
    """Return a connector's name and config. Raise UsageError for an invalid text."""
    from moldau.config.properties import parse_properties
    from moldau.connect.herder.refusals import BadRequest
    from moldau.connect.rest.bodies import config_of, create_request

    if not text.lstrip().startswith("{"):
        config: Config = {each.key: each.value for each in parse_properties(text, path)}
        if not config.get("name"):
            raise UsageError(f"{path}: name is missing: name the connector")
        return str(config["name"]), config
    try:
        body = json.loads(text)
        if isinstance(body, dict) and isinstance(body.get("config"), dict):
            name, config, _ = create_request(body)
        else:
            flat = config_of(body)
            name, config, _ = create_request({"name": flat.get("name"), "config": flat})
    except ValueError as error:
        raise UsageError(f"{path}: no JSON: {error}") from None
    except BadRequest as error:
        raise UsageError(f"{path}: {error}") from None
    return name, config
