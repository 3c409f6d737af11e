"""The assignors that a setting can name: built-in ones, by two kinds of names, and plugins. No IO.

`partition.assignment.strategy` takes short names (`range`), the names of Java's classes, as a file
written for Java has them, and names of the plugin group `moldau.assignors`. Never a dotted path: a
setting chooses among what is installed, it does not choose code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Final, cast

from moldau.client.group.assignors.assignor import Assignor
from moldau.client.group.assignors.ranges import RangeAssignor
from moldau.client.group.assignors.round_robin import RoundRobinAssignor
from moldau.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from moldau.errors import ConfigError
from moldau.plugins import PluginError, Plugins, installed_plugins

AssignorGiven = str | Assignor | type[Assignor]
"""A name, an object, or a class to make one of."""
GROUP: Final = "moldau.assignors"
SETTING: Final = "partition.assignment.strategy"
_PARTS: Final = ("name", "rebalances", "user_data", "assign", "on_assignment")
OURS: Final[dict[str, Callable[[], Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
_JAVA: Final = "org.apache.kafka.clients.consumer."
_JAVAS_NAMES: Final = {
    f"{_JAVA}RangeAssignor": "range",
    f"{_JAVA}RoundRobinAssignor": "roundrobin",
    f"{_JAVA}StickyAssignor": "sticky",
    f"{_JAVA}CooperativeStickyAssignor": "cooperative-sticky",
}


def load_assignors(
    given: Iterable[AssignorGiven], plugins: Plugins | None = None
) -> list[Assignor]:
    """Return one new assignor for each name or class, in this order, and objects as they are.
    ConfigError says which names are known, or what an object lacks."""
    found = []
    for name in given:
        if not isinstance(name, str):
            found.append(checked(name() if isinstance(name, type) else name))
            continue
        make = OURS.get(_JAVAS_NAMES.get(name, name))
        if make is None:
            plugins = installed_plugins() if plugins is None else plugins
            make = _load(name, plugins)
        found.append(checked(make()))
    doubles = {each.name for each in found if [other.name for other in found].count(each.name) > 1}
    if doubles:
        raise ConfigError(
            "two assignors have one name",
            setting=SETTING,
            names=sorted(doubles),
        )
    return found


def checked(assignor: Assignor) -> Assignor:
    """Return the assignor. Raise a ConfigError that says what it lacks."""
    facts: dict[str, object] = {"setting": SETTING, "type": type(assignor).__name__}
    missing = [each for each in _PARTS if not hasattr(assignor, each)]
    if missing:
        reason = "what is given as an assignor is none: it lacks what an assignor has"
        raise ConfigError(reason, **facts, missing=missing)
    try:
        signature(assignor.on_assignment).bind([], 0, None)
    except TypeError:
        reason = "an assignor's on_assignment takes partitions, generation and user_data"
        raise ConfigError(reason, **facts) from None
    return assignor


def _load(name: str, plugins: Plugins) -> Callable[[], Assignor]:
    try:
        loaded = plugins.load(GROUP, name)
    except PluginError as error:
        raise ConfigError(
            f"no such assignor: {error.reason}",
            **{
                **error.context,
                "setting": SETTING,
                "name": name,
                "known": ", ".join(OURS),
            },
        ) from error
    if not callable(loaded):
        raise ConfigError("the plugin makes no assignor", plugin=name, group=GROUP)
    return cast("Callable[[], Assignor]", loaded)
