"""Settings in TOML, parsed by the standard library.

TOML nests by itself: `log.retention.ms = 5` and `[log.retention]` both give dotted names. If a name
is both a setting and the beginning of others, quote it: `"config.providers" = "env"`.
"""

from __future__ import annotations

import re
import tomllib

from moldau.config.given import Layer
from moldau.config.nested import DEPTH_MAX, flatten
from moldau.deferred import deferred_pattern
from moldau.errors import ConfigError

# tomllib stores every prefix of a dotted key, so a long key would cost the square of its length.
_KEY = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*"""
_DEEP_KEY = deferred_pattern(rf"(?:^|[{{,])[ \t\[]*(?:{_KEY}\.[ \t]*){{{DEPTH_MAX}}}", re.MULTILINE)
_PLACE = deferred_pattern(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


def load_toml(text: str, file: str = "<text>") -> Layer:
    """Return the settings of one TOML document. A date is not a valid value."""
    text = text.removeprefix("\ufeff")
    deep = _DEEP_KEY.search(text)
    if deep is not None:
        at = text.count("\n", 0, deep.end()) + 1
        raise ConfigError("nested too deeply", file=file, line=at, limit=DEPTH_MAX)
    try:
        tree = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        found = _PLACE.fullmatch(str(error))
        reason, *place = found.groups() if found is not None else (str(error), None, None)
        line, column = (int(number) if number else None for number in place)
        if line is None:
            line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        raise ConfigError(f"not TOML: {reason}", file=file, line=line, column=column) from None
    except RecursionError:
        raise ConfigError("nested too deeply", file=file) from None
    except ValueError as error:  # a number with more digits than Python accepts
        raise ConfigError(f"not TOML: {error}", file=file) from None
    return flatten(tree, file)
