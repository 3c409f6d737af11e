"""The levels of log lines, with Kafka's names, so that `kafka-configs` can set them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from moldau.errors import ConfigError


class Level(IntEnum):
    """A logger writes lines of its level or above; the numbers are those of `logging`."""

    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40
    FATAL = 50
    OFF = 100


ROOT = "root"

_BY_NAME: Mapping[str, Level] = {**Level.__members__, "WARNING": Level.WARN}


def parse_level(text: str) -> Level:
    """Return the level with that name, in any case. Raise ConfigError, which lists the names."""
    level = _BY_NAME.get(text.strip().upper())
    if level is None:
        raise ConfigError("no such log level", level=text, allowed=", ".join(Level.__members__))
    return level


def parse_levels(text: str) -> dict[str, Level]:
    """Parse `INFO,moldau.broker.log=DEBUG`: the level of the root, and of loggers by prefix."""
    levels: dict[str, Level] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, level = item.rpartition("=")
        name = name.strip() if equals else ROOT
        if not name or name in levels:
            reason = "the level of one logger twice" if name else "a level without its logger"
            raise ConfigError(reason, levels=text)
        levels[name] = parse_level(level)
    return levels
