"""The assignors that a setting names: ours, Kafka's names for them, and those of plugins. No IO.

`partition.assignment.strategy` takes short names (`range`), the names of Java's classes, as a file
written for Java has them, and names of the plugin group `moldau.assignors`. Never a dotted path: a
setting chooses among what is installed, it does not choose code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast

from moldau.client.assignors.assignor import Assignor
from moldau.client.assignors.ranges import RangeAssignor
from moldau.client.assignors.round_robin import RoundRobinAssignor
from moldau.client.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from moldau.errors import ConfigError
from moldau.plugins import PluginError, Plugins, installed_plugins

GROUP: Final = "moldau.assignors"
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


def load_assignors(names: Iterable[str], plugins: Plugins | None = None) -> list[Assignor]:
    """One new assignor a name, in this order; ConfigError that says which names there are."""
    found = []
    for name in names:
        make = OURS.get(_JAVAS_NAMES.get(name, name))
        if make is None:
            plugins = installed_plugins() if plugins is None else plugins
            make = _load(name, plugins)
        found.append(make())
    doubles = {each.name for each in found if [other.name for other in found].count(each.name) > 1}
    if doubles:
        raise ConfigError(
            "two assignors have one name",
            setting="partition.assignment.strategy",
            names=sorted(doubles),
        )
    return found


def _load(name: str, plugins: Plugins) -> Callable[[], Assignor]:
    try:
        loaded = plugins.load(GROUP, name)
    except PluginError as error:
        raise ConfigError(
            f"no such assignor: {error.reason}",
            **{
                **error.context,
                "setting": "partition.assignment.strategy",
                "name": name,
                "known": ", ".join(OURS),
            },
        ) from error
    if not callable(loaded):
        raise ConfigError("the plugin makes no assignor", plugin=name, group=GROUP)
    return cast("Callable[[], Assignor]", loaded)
