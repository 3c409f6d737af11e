"""Every group has a contract, every installed plugin keeps it, and what breaks one is told."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.plugins import Contract, ContractBroken, Contracts, Plugins, installed_plugins
from moldau.plugins.contracts import LAYERS, NONE, check_arguments, check_class, check_methods
from tests.plugins.entry_points import FakeEntryPoint, point

HERE = __name__
PLATFORM = point("layers", "platform", "moldau.cli.contracts:CONTRACTS", "moldau-platform")
CONNECT = point("layers", "connect", "moldau.connect.plugins.contracts:CONTRACTS", "moldau-connect")
STREAMS = point("layers", "streams", "moldau.streams.contracts:CONTRACTS", "moldau-streams")


def fault(entry: FakeEntryPoint, *layers: FakeEntryPoint) -> str | None:
    plugins = Plugins([PLATFORM, CONNECT, STREAMS, *layers, entry])
    contracts = Contracts(plugins)
    assert contracts.faults == ()
    return contracts.fault(plugins.named(entry.group)[entry.name])


def test_every_installed_plugin_keeps_its_contract() -> None:
    plugins = installed_plugins()
    contracts = Contracts(plugins)
    checked = [plugin for group in plugins.groups() for plugin in plugins.named(group).values()]
    assert len(checked) > 60
    assert {each.group for each in checked} >= {LAYERS, "moldau.commands", "moldau.transforms"}
    assert {each.name: contracts.fault(each) for each in checked if contracts.fault(each)} == {}
    assert contracts.faults == ()


class NoMethods:
    pass


class Waits:
    def __init__(self, needed: int) -> None:
        pass


class Silent:
    summary = " "

    def configure(self, parser: Any) -> None:
        pass

    def run(self, arguments: Any, context: Any) -> int:
        return 0


class Failing(Silent):
    summary = "Fails."

    def configure(self, parser: Any) -> None:
        raise KeyError("no such thing")


silent, failing = Silent(), Failing()


def no_choice() -> None:
    pass


@pytest.mark.parametrize(
    ("group", "target", "words"),
    [
        ("commands", "Silent", "a command is an object with"),
        ("commands", "silent", "the summary of a command"),
        ("commands", "failing", "KeyError: 'no such thing'"),
        ("commands", "no_such", "AttributeError"),
        ("assignors", "NoMethods", "it lacks what an assignor has"),
        ("assignors", "Waits", "it is called otherwise"),
        ("assignors", "HERE", "a callable was expected"),
        ("serdes", "no_choice", "it is called otherwise"),
        ("interceptors", "NoMethods", "it lacks methods"),
        ("interceptors", "no_choice", "a class was expected"),
        ("partitioners", "NoMethods", "missing=['partition']"),
        ("embedded_brokers", "no_choice", "it is called otherwise"),
        ("cluster_nodes", "no_choice", "it is called otherwise"),
        ("remote_segments", "NoMethods", "it lacks methods"),
        ("spark_sessions", "no_choice", "it is called otherwise"),
        ("layers", "HERE", "a tuple of Contract"),
        ("transforms", "NoMethods", "it is no Transformation"),
        ("connectors", "HERE", "a class was expected"),
        ("converters", "NoMethods", "it is no Converter"),
        ("predicates", "NoMethods", "it is no Predicate"),
        ("config_providers", "NoMethods", "it is no ConfigProvider"),
        ("header_converters", "NoMethods", "it is no HeaderConverter"),
        ("convertors", "NoMethods", "no installed layer has plugins of the group"),
    ],
)
def test_what_breaks_a_contract_is_told_in_a_line(group: str, target: str, words: str) -> None:
    if group == "layers":
        contracts = Contracts(Plugins([PLATFORM, point("layers", "odd", f"{HERE}:{target}")]))
        (told,) = contracts.faults
        assert told.startswith("the layer odd cannot be used")
    else:
        told = fault(point(group, "odd", f"{HERE}:{target}")) or ""
    assert words in told
    assert "\n" not in told


def test_an_abstract_class_is_told_with_what_it_lacks() -> None:
    told = fault(point("transforms", "odd", "moldau.connect.api:Transformation"))
    assert told is not None
    assert "it lacks methods" in told
    assert "apply" in told


def check_greeting(loaded: object) -> None:
    check_arguments(loaded, "Ann")


GREETINGS = (Contract("moldau.greetings", "greetings", check_greeting),)
SECOND = (Contract("moldau.commands", "other commands", check_greeting),)


def test_a_layer_of_another_distribution_has_groups_of_its_own() -> None:
    layer = point("layers", "shop", f"{HERE}:GREETINGS", "shop")
    assert fault(point("greetings", "loud", "builtins:str"), layer) is None
    told = fault(point("greetings", "odd", f"{HERE}:no_choice"), layer)
    assert told is not None
    assert "too many positional arguments" in told
    plugins = Plugins([PLATFORM, layer, point("new", "x", "a:b")])
    groups = Contracts(plugins).groups(plugins)
    assert groups[-2:] == ("moldau.greetings", "moldau.new")


def test_a_group_has_one_contract() -> None:
    second = point("layers", "second", f"{HERE}:SECOND")
    contracts = Contracts(Plugins([PLATFORM, second]))
    assert contracts.faults == ("the layer second has a second contract for moldau.commands",)
    assert contracts.by_group["moldau.commands"].contents == "subcommands of `moldau`"


def test_a_layer_that_cannot_be_loaded_leaves_the_others() -> None:
    broken = point("layers", "broken", "tests.plugins.breaks_on_import:plugin")
    contracts = Contracts(Plugins([PLATFORM, broken]))
    (told,) = contracts.faults
    assert "no licence found" in told
    assert "moldau.serdes" in contracts.by_group


def test_the_checks_pass_what_fits() -> None:
    check_arguments(len, [])
    check_methods([], "append", "pop")
    assert check_class(bool, int) is bool
    assert NONE == ()
    with pytest.raises(ContractBroken, match="missing="):
        check_methods([], "append", "push")
