"""Settings in JSON, such as Kafka Connect's. Numbers keep the digits of the file."""

from __future__ import annotations

import json
from typing import NoReturn

from moldau.config.given import Layer
from moldau.config.nested import flatten
from moldau.errors import ConfigError


def load_json(text: str, file: str = "<text>") -> Layer:
    """Return a JSON object's settings. Raise ConfigError for a repeated key, NaN or infinity."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        tree = dict(pairs)
        if len(tree) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise ConfigError("the same key twice in one object", file=file, key=key)
                seen.add(key)
        return tree

    def refuse(constant: str) -> NoReturn:
        raise ConfigError("not a number that JSON knows", file=file, value=constant)

    try:
        tree = json.loads(
            text.removeprefix("\ufeff"),
            object_pairs_hook=unique,
            parse_int=str,
            parse_float=str,
            parse_constant=refuse,
        )
    except json.JSONDecodeError as error:
        place = {"line": error.lineno, "column": error.colno}
        raise ConfigError(f"not JSON: {error.msg}", file=file, **place) from None
    except RecursionError:
        raise ConfigError("nested too deeply", file=file) from None
    return flatten(tree, file)
