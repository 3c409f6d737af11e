"""A catalogue of the plugins in `own.py`, and of some that are broken."""

from __future__ import annotations

from moldau.connect.plugins import Catalogue
from moldau.plugins import Plugins, installed_plugins
from tests.plugins.entry_points import point

OWN = "tests.connect.plugins.own"
POINTS = (
    point("connectors", "ticks", f"{OWN}:TickSourceConnector"),
    point("connectors", "NullSink", f"{OWN}:NullSink"),
    point("connectors", "Missing", f"{OWN}:Missing"),
    point("connectors", "NeedsMoreConnector", "tests.plugins.breaks_on_import:Connector"),
    point("transforms", "Suffix$Value", f"{OWN}:Suffix"),
    point("transforms", "Number", f"{OWN}:NOT_A_PLUGIN"),
    point("predicates", "IsTick", f"{OWN}:IsTick"),
)


def catalogue() -> Catalogue:
    """The plugins of the tests beside the converters that are really installed."""
    real = installed_plugins()
    converters = [
        point(group, plugin.name, plugin.target)
        for group in ("converters", "header_converters")
        for plugin in real.named(f"moldau.{group}").values()
    ]
    return Catalogue(Plugins([*POINTS, *converters]))
