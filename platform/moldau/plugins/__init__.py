"""What is installed: plugins by entry-point group, the contracts of the groups, and the layers.

    plugins = installed_plugins()
    command = plugins.load("moldau.commands", "topics")

Invariants: nothing is imported until that very plugin is asked for; a name that two
distributions claim belongs to neither; whatever a plugin raises while it is imported becomes a
`PluginError` that names the distribution and the entry point, for one broken package must not take
the rest down. A plugin is found by its name among what is installed, and never by a dotted path
from a setting or a request: those choose among plugins, they do not choose code (CVE-2023-25194).
moldau's own layers come in by the same door as all others, and each layer says what the plugins of
its groups must be (`contracts`).
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
    "Conflict",
    "Contract",
    "ContractBroken",
    "Contracts",
    "EntryPoint",
    "Failure",
    "Layer",
    "Plugin",
    "PluginError",
    "Plugins",
    "installed_layers",
    "installed_plugins",
]
