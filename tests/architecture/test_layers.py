"""Imports point one way: import-linter's contracts in pyproject.toml hold, and each can fail.

The contracts are tried on a tiny `moldau` made for the purpose: a graph of empty packages, with one
forbidden import planted. That tells a contract that holds from one that looks at nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Container
from functools import cache
from typing import cast

import grimp
import importlinter.configuration
import pytest
from importlinter.application import use_cases
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract
from importlinter.contracts.layers import Layer, LayersContract
from importlinter.domain.contract import Contract
from importlinter.domain.imports import ImportExpression, ModuleExpression

from tests.architecture.allowed import Found, check
from tests.architecture.sources import ROOT, Source, product

PYPROJECT = ROOT / "pyproject.toml"
BROKER = ("main", "server", "api", "network", "coordinator", "controller", "replication", "raft")
PACKAGES = (
    *(
        "pipeline",
        "connectors",
        "spark",
        "mirror",
        "connect",
        "streams",
        "broker",
        "cli",
        "testing",
        "client",
        "link",
    ),
    *(
        "config",
        "metrics",
        "plugins",
        "logging",
        "records",
        "protocol",
        "runtime",
        "expressions",
        "ids",
        "errors",
    ),
    *(f"broker.{name}" for name in (*BROKER, "tiered", "log", "security")),
    *(f"connect.{name}" for name in ("herder", "worker", "task", "api", "data")),
    *(f"streams.{name}" for name in ("app", "dsl", "spark", "worker", "query", "engine", "plan")),
    *(f"connectors.{name}" for name in ("file", "jdbc", "spark")),
    *(f"connectors.jdbc.{name}" for name in ("sink", "source", "dialects")),
    *(
        f"connectors.spark.{name}"
        for name in ("checkpoint", "checkpoint.folder", "checkpoint.lock")
    ),
)

PLANNED: list[str] = []
"""Layers for rooms that are not built yet."""
KINDS: dict[str, type[Contract]] = {
    "layers": LayersContract,
    "acyclic_siblings": AcyclicSiblingsContract,
}

importlinter.configuration.configure()


@cache
def contracts() -> tuple[Contract, ...]:
    """Those of pyproject.toml: layers, and one about cycles."""
    options = use_cases.read_user_options(str(PYPROJECT))
    return tuple(
        KINDS[each["type"]](each["name"], options.session_options, each)
        for each in options.contracts_options
    )


def absent(modules: Container[str]) -> list[str]:
    """The layers that no module has: a contract does not look at them."""
    return [
        f"{container}.{tail.name}"
        for contract in contracts()
        if isinstance(contract, LayersContract)
        for container in cast("list[ModuleExpression]", contract.containers)
        for layer in cast("list[Layer]", contract.layers)
        for tail in layer.module_tails
        if f"{container}.{tail.name}" not in modules
    ]


def broken(graph: grimp.ImportGraph) -> list[str]:
    """The names of the contracts that these imports break."""
    return [
        contract.name
        for contract in contracts()
        if not contract.check(copy.deepcopy(graph), verbose=False).kept
    ]


def exceptions() -> list[tuple[str, str]]:
    """Imports that close a cycle; one that is not there any more breaks its contract."""
    found = [each for each in contracts() if isinstance(each, AcyclicSiblingsContract)]
    ignored = cast("set[ImportExpression]", found[0].ignore_imports)
    return [(each.importer.expression, each.imported.expression) for each in ignored]


def planted(imports: dict[str, str]) -> grimp.ImportGraph:
    """A `moldau` of empty packages and these imports, by their importers."""
    graph = grimp.ImportGraph()
    for name in ("moldau", *(f"moldau.{each}" for each in {*PACKAGES, *imports})):
        graph.add_module(name)
    for importer, imported in exceptions():
        graph.add_import(importer=importer, imported=imported)
    for importer, imported in imports.items():
        assert imported in graph.modules, imported
        graph.add_import(importer=f"moldau.{importer}", imported=imported)
    return graph


def test_imports_point_down_in_the_real_tree() -> None:
    graph = grimp.build_graph("moldau", cache_dir=None)

    assert len(graph.modules) > 1000
    assert broken(graph) == []
    assert absent(graph.modules) == PLANNED


def test_imports_that_point_down_are_kept() -> None:
    """What the layers are there to allow."""
    graph = planted(
        {
            "pipeline": "moldau.connect",
            "connectors": "moldau.connect",
            "connect": "moldau.client",
            "streams": "moldau.client",
            "broker": "moldau.cli",
            "cli": "moldau.client",
            "client": "moldau.records",
            "config": "moldau.runtime",
            "records": "moldau.protocol",
            "protocol": "moldau.errors",
            "broker.main": "moldau.broker.server",
            "broker.controller": "moldau.broker.raft",
            "broker.raft": "moldau.broker.log",
        }
    )

    assert broken(graph) == []


@pytest.mark.parametrize(
    ("importer", "imported", "contract"),
    [
        ("errors", "ids", "The platform and what stands on it"),
        ("protocol", "records", "The platform and what stands on it"),
        ("config", "metrics", "The platform and what stands on it"),
        ("client", "broker", "The platform and what stands on it"),
        ("streams", "broker", "The platform and what stands on it"),
        ("connect", "streams", "The platform and what stands on it"),
        ("new_package", "errors", "The platform and what stands on it"),
        ("protocol", "runtime", "Protocol and records know nothing of the runtime"),
        ("records", "runtime", "Records know nothing of the runtime"),
        ("broker.server", "client", "The broker does not use the client"),
        ("broker.server", "testing", "The broker does not use moldau.testing"),
        ("connectors", "broker", "Connectors reach broker and streams only over the wire"),
        ("connectors", "streams", "Connectors reach broker and streams only over the wire"),
        ("connectors", "pipeline", "The platform and what stands on it"),
        ("pipeline", "broker", "Pipelines reach broker and streams only as processes"),
        ("pipeline", "streams", "Pipelines reach broker and streams only as processes"),
        ("spark", "connect", "The Spark data source reaches"),
        ("broker.log", "broker.raft", "Inside the broker"),
        ("broker.raft", "broker.replication", "Inside the broker"),
        ("broker.coordinator", "broker.controller", "Inside the broker"),
        ("broker.coordinator", "broker.api", "Inside the broker"),
        ("broker.network", "broker.api", "Inside the broker"),
        ("broker.new_package", "errors", "Inside the broker"),
        ("connect.task", "connect.worker", "Inside Connect"),
        ("connect.new_package", "errors", "Inside Connect"),
        ("streams.worker", "streams.app", "Inside Streams"),
        ("streams.engine", "streams.worker", "Inside Streams"),
        ("streams.plan", "streams.dsl", "Inside Streams"),
        ("streams.new_package", "errors", "Inside Streams"),
        ("streams.dsl", "streams.worker", "The DSL and the worker meet in the plan alone"),
        ("connectors.file", "connectors.jdbc", "Inside the connectors"),
        ("connectors.jdbc.sink", "connectors.jdbc.source", "Inside the JDBC connectors"),
        ("connectors.jdbc.dialects", "connectors.jdbc.sink", "Inside the JDBC connectors"),
        (
            "connectors.spark.checkpoint.lock",
            "connectors.spark.checkpoint.folder",
            "Inside the check",
        ),
    ],
)
def test_a_planted_import_breaks_its_contract(importer: str, imported: str, contract: str) -> None:
    found = broken(planted({importer: f"moldau.{imported}"}))

    assert any(name.startswith(contract) for name in found), found


def test_a_planted_cycle_of_files_is_found() -> None:
    names = ("pipeline.one", "pipeline.two")
    cycle = {name: f"moldau.{other}" for name, other in zip(names, names[::-1], strict=True)}

    found = broken(planted(cycle))

    assert [name.partition(",")[0] for name in found] == ["Streams"]


def test_the_product_imports_neither_tests_nor_bench_nor_examples() -> None:
    check("product_imports", outward(product()))


def test_a_planted_import_of_test_code_is_found() -> None:
    planted = Source("broker/moldau/broker/log.py", "def f():\n    from tests.oracle import x\n")

    assert set(outward([planted])) == {planted.path}


def outward(among: tuple[Source, ...] | list[Source]) -> Found:
    outside = ("tests", "bench", "examples")
    return {
        source.path: "imports from outside the product"
        for source in among
        if any(
            line.strip().startswith((f"import {name}", f"from {name}"))
            for line in source.text.splitlines()
            for name in outside
        )
    }
