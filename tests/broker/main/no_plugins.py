"""For commands that are run without the frame: nothing is installed."""

from __future__ import annotations

from moldau.plugins import Plugins


def no_plugins() -> Plugins:
    return Plugins([])
