"""Check the dynamic settings of brokers, together with those that a node was started with.

A dynamic change that would prevent a node from starting is rejected while it runs. But the settings
file may change too, and then both may no longer fit. For example, the stored `listeners` names a
listener that the file's `listener.security.protocol.map` no longer has. Kafka logs this and starts
with the file alone. Then a listener that was closed at run time, or whose traffic was to be
protected, is open again. So here the node does not start: `check_stored` names the settings at
fault, where they are stored, and how to delete them without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.controller.configs import DynamicConfigs
from moldau.broker.settings import dynamic_layers, unbuilt
from moldau.config import BadSettings
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.config import Settings


class StoredSetting(NamedTuple):
    """A dynamic setting of one broker or of all."""

    name: str
    is_of_all: bool


def problem_with(started_with: Settings, dynamic: DynamicConfigs) -> str | None:
    """Return the reason why a node cannot run with these settings together; None if it can."""
    try:
        settings = started_with.overlaid(*dynamic_layers(*dynamic))
    except BadSettings as error:
        return "; ".join(map(str, error.problems))
    return "; ".join(unbuilt(settings)) or None


def check_stored(started_with: Settings, dynamic: DynamicConfigs, directory: str) -> None:
    """Raise ConfigError if the node cannot start with its dynamic settings, but could without them.

    `directory` is the directory of its metadata log.
    """
    problem = problem_with(started_with, dynamic)
    if problem is None or problem_with(started_with, DynamicConfigs({}, {})) is not None:
        return
    to_blame = blamed(started_with, dynamic)
    names = ", ".join(
        f"{each.name}{' (all brokers)' if each.is_of_all else ''}" for each in to_blame
    )
    raise ConfigError(
        f"{problem}. It is not the settings that this node is started with, but what was set over "
        f"them at run time: {names}. Start it with settings that fit that, or take it back with "
        f"{' and '.join(_commands(to_blame))} and the --config, --data and --set of this node",
        kept_in=directory,
    )


def blamed(started_with: Settings, dynamic: DynamicConfigs) -> list[StoredSetting]:
    """Return the dynamic settings whose deletion is enough, without any that may stay."""
    stored = [StoredSetting(name, is_of_all=True) for name in sorted(dynamic.all_brokers)]
    stored += [StoredSetting(name, is_of_all=False) for name in sorted(dynamic.one_broker)]
    taken = stored
    for each in stored:
        fewer = [other for other in taken if other != each]
        if problem_with(started_with, _without(dynamic, fewer)) is None:
            taken = fewer
    return taken


def _without(dynamic: DynamicConfigs, taken: Sequence[StoredSetting]) -> DynamicConfigs:
    all_brokers, one_broker = dict(dynamic.all_brokers), dict(dynamic.one_broker)
    for each in taken:
        del (all_brokers if each.is_of_all else one_broker)[each.name]
    return DynamicConfigs(all_brokers, one_broker)


def _commands(to_blame: Sequence[StoredSetting]) -> Iterator[str]:
    for is_of_all in (False, True):
        names = [each.name for each in to_blame if each.is_of_all is is_of_all]
        if names:
            option = "--all-brokers " if is_of_all else ""
            yield f"`moldau storage unset {option}{' '.join(names)}`"
