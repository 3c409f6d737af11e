"""The loggers of this broker as a resource with settings: their levels, by name (KIP-412).

The levels live in the process and not in the metadata log: a broker that starts again has the
levels of its command line. Only existing loggers can be given a level. They differ from Kafka's,
because the names are those of our modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from moldau.broker.controller.config_changes import Change, Operation
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import ROOT, Level, Loggers

SETTABLE: Final[Mapping[str, Level]] = {
    name: level for name, level in sorted(Level.__members__.items()) if level is not Level.OFF
}


class LoggerLevel(NamedTuple):
    """A logger and its level: it writes messages of this level and above."""

    name: str
    level: str


def describe_loggers(loggers: Loggers) -> Iterable[LoggerLevel]:
    """Return all loggers with their effective levels. Kafka has no OFF, so it is reported as FATAL,
    Kafka's highest level: nothing is logged at that level here."""
    return (
        LoggerLevel(name, Level.FATAL.name if level is Level.OFF else level.name)
        for name, level in loggers.levels().items()
    )


def alter_loggers(loggers: Loggers, changes: Iterable[Change], *, validate_only: bool) -> None:
    """Change the levels at once, all or none. Raise KafkaError if one of the changes is invalid."""
    known = loggers.levels()
    levels = {change.name: _level(change, known) for change in changes}
    if not validate_only:
        loggers.set_levels(levels)


def _level(change: Change, known: Mapping[str, Level]) -> Level | None:
    if change.operation not in (Operation.SET, Operation.DELETE):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "the level of a logger can be set and deleted, not more"
        )
    if change.name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {change.name!r}")
    if change.operation == Operation.DELETE:
        if change.name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{ROOT} needs a level")
        return None
    level = SETTABLE.get(change.value or "")
    if level is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{change.name}: {change.value!r} is no level; there are {', '.join(SETTABLE)}",
        )
    return level
