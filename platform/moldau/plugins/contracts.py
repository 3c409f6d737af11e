"""What the plugins of a group must be, as the layer says that uses them.

    CONTRACTS = (Contract("moldau.assignors", "partition assignors", check_assignor),)

A layer is a distribution with an entry point in the group `moldau.layers`, which names its table of
contracts. So any distribution can add a layer with groups of its own, and its plugins are
listed and checked as all others. A table must be cheap to import: what a check needs is imported by
the check.

Invariants: a group has one contract; a check raises `ContractBroken` for a plugin that its layer
could not use, and whatever else it raises is the plugin's fault too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from moldau.errors import MoldauError
from moldau.plugins.registry import Plugin, PluginError, Plugins

LAYERS: Final = "moldau.layers"


class ContractBroken(MoldauError):
    """A plugin that can be loaded, and is not what its group demands."""


@dataclass(frozen=True, slots=True)
class Contract:
    """Of one group: what its plugins are, and a check of what an entry point gives."""

    group: str
    contents: str
    check: Callable[[object], None]


NONE: Final[tuple[Contract, ...]] = ()
"""For a layer that takes no plugins."""


class Contracts:
    """All that the installed layers have."""

    def __init__(self, plugins: Plugins) -> None:
        """Loads the tables; `faults` has what is wrong with them."""
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
        """Those with a contract in the layers' order, then those that only plugins name."""
        return (*self.by_group, *sorted(set(plugins.groups()) - self.by_group.keys()))

    def fault(self, plugin: Plugin) -> str | None:
        """What is wrong with a plugin, in one line; None if its layer can use it."""
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
    """The table of a layer; ContractBroken if it is none."""
    table = tuple(loaded) if isinstance(loaded, Iterable) else None
    if table is None or not all(isinstance(each, Contract) for each in table):
        raise ContractBroken("a layer's entry point names a tuple of Contract")
    return table


def check_arguments(made: object, *arguments: object) -> None:
    """ContractBroken for what cannot be called with these arguments."""
    from inspect import signature

    if not callable(made):
        raise ContractBroken("a callable was expected", type=type(made).__name__)
    try:
        signature(made).bind(*arguments)
    except TypeError as error:
        raise ContractBroken(f"it is called otherwise: {error}") from None
    except ValueError:
        return  # built in, and tells nothing of itself


def check_class(loaded: object, base: type | None = None) -> type:
    """The class; ContractBroken for what is none, or is not derived from `base`, or is abstract."""
    if not isinstance(loaded, type):
        raise ContractBroken("a class was expected", type=type(loaded).__name__)
    if base is not None and not issubclass(loaded, base):
        raise ContractBroken(f"it is no {base.__name__}", name=loaded.__name__)
    missing = sorted(getattr(loaded, "__abstractmethods__", ()))
    if missing:
        raise ContractBroken("it lacks methods", name=loaded.__name__, missing=missing)
    return loaded


def check_methods(made: object, *names: str) -> None:
    """ContractBroken names the methods that are missing."""
    missing = [name for name in names if not callable(getattr(made, name, None))]
    if missing:
        raise ContractBroken("it lacks methods", type=type(made).__name__, missing=missing)
