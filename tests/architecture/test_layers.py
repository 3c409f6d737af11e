"""Imports point one way: import-linter's contracts in pyproject.toml hold, and each can fail.

The contracts are tried on a tiny `moldau` made for the purpose: every package empty, and one
forbidden import planted. That tells a contract that holds from one that looks at nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.sources import ROOT, Source, product

PYPROJECT = ROOT / "pyproject.toml"
BROKER = ("main", "server", "api", "network", "coordinator", "controller", "replication", "raft")
PACKAGES = (
    *(
        "pipeline",
        "connectors",
        "spark",
        "connect",
        "streams",
        "broker",
        "cli",
        "testing",
        "client",
        "link",
    ),
    *("config", "metrics", "plugins", "logging", "records", "protocol", "runtime", "ids", "errors"),
    *(f"broker.{name}" for name in (*BROKER, "tiered", "log", "security")),
)

# Runs import-linter where the only `moldau` to be found is the one in the given folder.
LINT_ALONE = """
import sys
from pathlib import Path
folder, config = sys.argv[1:]
sys.path[:] = [folder, *(path for path in sys.path if not Path(path, "moldau").is_dir())]
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename=config, no_cache=True))
"""
LINT = """
import sys
from importlinter.cli import lint_imports
sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))
"""


def lint(folder: Path, planted: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of import-linter on a `moldau` of empty packages and these imports."""
    (folder / "moldau").mkdir()
    for package in PACKAGES:
        path = folder.joinpath("moldau", *package.split("."))
        path.mkdir()
        line = f"import {planted[package]}\n" if package in planted else ""
        (path / "__init__.py").write_text(line)
    for package in planted.keys() - set(PACKAGES):
        folder.joinpath("moldau", *package.split(".")).with_suffix(".py").write_text(
            f"import {planted[package]}\n"
        )
    command = [sys.executable, "-c", LINT_ALONE, str(folder), str(PYPROJECT)]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    return answer.returncode, " ".join((answer.stdout + answer.stderr).split())


def test_imports_point_down_in_the_real_tree() -> None:
    command = [sys.executable, "-c", LINT, str(PYPROJECT)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "0 broken" in answer.stdout


def test_imports_that_point_down_are_kept(tmp_path: Path) -> None:
    """What the layers are there to allow."""
    code, output = lint(
        tmp_path,
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
        },
    )

    assert code == 0, output
    assert "0 broken" in output


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
    ],
)
def test_a_planted_import_breaks_its_contract(
    tmp_path: Path, importer: str, imported: str, contract: str
) -> None:
    code, output = lint(tmp_path, {importer: f"moldau.{imported}"})

    assert code != 0, output
    verdicts = output.partition("Contracts: ")[0]
    assert contract in verdicts
    assert "BROKEN" in verdicts.partition(contract)[2].partition("KEPT")[0], output


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
