"""The contracts of plugin groups, which the layers that use the plugins define.

    CONTRACTS = (Contract("moldau.assignors", "partition assignors", check_assignor),)

A layer is a distribution with an entry point in the group `moldau.layers`, which names its table of
contracts. So any distribution can add a layer with groups of its own, and its plugins are listed
and checked like all others. A table must be cheap to import: each check imports what it needs.

Invariants: a group has one contract; a check raises `ContractBroken` for a plugin that its layer
could not use, and any other exception of a check is the plugin's fault, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.plugins.registry import Plugin, PluginError, Plugins

LAYERS: Final = "moldau.layers"


class ContractBroken(MoldauError):
    """A plugin can be loaded, but does not fulfil the contract of its group."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract of one group: a description of its plugins, and a check of a loaded plugin."""

    group: str
    contents: str
    check: Callable[[object], None]


NONE: Final[tuple[Contract, ...]] = ()
"""The contracts of a layer without plugins."""


class Contracts:
    """The contracts of all installed layers."""

    def __init__(self, plugins: Plugins) -> None:
        """Load the tables of the layers; `faults` has their errors."""
        found: dict[str, Contract] = {}
        faults = []
        for name, layer in plugins.named(LAYERS).items():
            try:
                table = check_layer(layer.load())
            except (PluginError, ContractBroken) as error:
                faults.append(f"the layer {name} cannot be used: {error}")
                continue
            for each in table:
                if found.setdefault(each.group, each) is not each:
                    faults.append(f"the layer {name} has a second contract for {each.group}")
        self.faults = tuple(faults)
        self.by_group: dict[str, Contract] = found

    def groups(self, plugins: Plugins) -> tuple[str, ...]:
        """Return the groups with a contract, in the layers' order, then groups without one."""
        return (*self.by_group, *sorted(set(plugins.groups()) - self.by_group.keys()))

    def fault(self, plugin: Plugin) -> str | None:
        """Return what is wrong with a plugin, in one line; None if its layer can use it."""
        contract = self.by_group.get(plugin.group)
        if contract is None:
            return f"no installed layer has plugins of the group {plugin.group}"
        try:
            contract.check(plugin.load())
        except PluginError as error:
            return str(error.context.get("error", error.reason))
        except MoldauError as error:
            return " ".join(str(error).split())
        except (Exception, SystemExit) as error:
            return " ".join(f"{type(error).__name__}: {error}".split())
        return None


def check_layer(loaded: object) -> tuple[Contract, ...]:
    """Return the table of a layer. Raise ContractBroken if it is not a table of contracts."""
    table = tuple(loaded) if isinstance(loaded, Iterable) else None
    if table is None or not all(isinstance(each, Contract) for each in table):
        raise ContractBroken("a layer's entry point names a tuple of Contract")
    return table


def check_arguments(made: object, *arguments: object) -> None:
    """Raise ContractBroken unless `made` can be called with these arguments."""
    from inspect import signature

    if not callable(made):
        raise ContractBroken("a callable was expected", type=type(made).__name__)
    try:
        signature(made).bind(*arguments)
    except TypeError as error:
        raise ContractBroken(f"it is called otherwise: {error}") from None
    except ValueError:
        return  # it is built in, and has no signature


def check_class(loaded: object, base: type | None = None) -> type:
    """Return the class. Raise ContractBroken if it is none, abstract, or not a `base`."""
    if not isinstance(loaded, type):
        raise ContractBroken("a class was expected", type=type(loaded).__name__)
    if base is not None and not issubclass(loaded, base):
        raise ContractBroken(f"it is no {base.__name__}", name=loaded.__name__)
    missing = sorted(getattr(loaded, "__abstractmethods__", ()))
    if missing:
        raise ContractBroken("it lacks methods", name=loaded.__name__, missing=missing)
    return loaded


def check_methods(made: object, *names: str) -> None:
    """Raise ContractBroken, which names the missing methods, unless all methods exist."""
    missing = [name for name in names if not callable(getattr(made, name, None))]
    if missing:
        raise ContractBroken("it lacks methods", type=type(made).__name__, missing=missing)
