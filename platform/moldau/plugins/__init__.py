"""The installed plugins by entry-point group, the contracts of the groups, and the layers.

    plugins = installed_plugins()
    command = plugins.load("moldau.commands", "topics")

Invariants: a plugin is imported only when it is requested; a name that two distributions claim
belongs to neither; whatever a plugin raises during its import becomes a `PluginError` that names
the distribution and the entry point, so that one broken package does not break the rest. A plugin
is found by its name among the installed ones, and never by a dotted path from a setting or a
request: those choose among plugins, but never choose code (CVE-2023-25194). moldau's own layers are
found in the same way as all others, and each layer defines the contracts of its groups
(`contracts`).
"""

from __future__ import annotations

from moldau.plugins.contracts import Contract, ContractBroken, Contracts
from moldau.plugins.layers import Layer, installed_layers
from moldau.plugins.registry import (
    Conflict,
    EntryPoint,
    Failure,
    Plugin,
    PluginError,
    Plugins,
    installed_plugins,
)

__all__ = [
    "Conflict", "Contract", "ContractBroken", "Contracts", "EntryPoint", "Failure", "Layer",
    "Plugin", "PluginError", "Plugins", "installed_layers", "installed_plugins",
]  # fmt: skip
