"""Five distributions share the namespace `moldau`; every package is typed, told about and tested.

What must not be there matters as much: a `moldau/__init__.py` would hide the other portions, and an
`__init__.py` or a test at the top of `platform/` would replace the standard library's `platform`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import each_file, finding
from tests.architecture.sources import DISTRIBUTIONS, Source, product, tracked

NOT_MIRRORS = {
    "architecture": "the house rules",
    "bench": "the bench harness",
    "chaos": "real processes killed under load",
    "databases": "databases to test with",
    "conformance": "the wire against other Kafkas",
    "differential": "the same questions to Apache Kafka and to ours",
    "e2e": "the whole, in real processes",
    "examples": "the examples run",
    "fuzz": "every decoder on bad input",
    "release": "wheels, source archives and what is in them",
    "peers": "Apache Kafka's own code to compare with",
    "simulation": "whole clusters from a seed",
}


BESIDE_THE_NAMESPACE = {
    "platform/hatch_build.py": "compiles the kernel",
    "platform/moldau/__main__.py": "python -m moldau",
    "connectors/pyspark_moldau.py": "Spark looks for data sources at the top of the path",
}


def packages(paths: Iterable[str]) -> dict[str, str]:
    """The direct packages of the namespace: name -> folder."""
    found = {}
    for path in paths:
        parts = PurePosixPath(path).parts
        if len(parts) > 3 and parts[0] in DISTRIBUTIONS and parts[1] == "moldau":
            found[parts[2]] = "/".join(parts[:3])
    return found


def incomplete_packages(paths: Iterable[str]) -> Found:
    paths = set(paths)
    return {
        f"{folder}/{name}": "missing"
        for folder in packages(paths).values()
        for name in ("__init__.py", "py.typed")
        if f"{folder}/{name}" not in paths
    }


def intruders(paths: Iterable[str]) -> Found:
    """Python files where one would break the namespace or hide a module of the stdlib."""
    found = {}
    for path in paths:
        parts = PurePosixPath(path).parts
        is_beside = parts[0] in DISTRIBUTIONS and parts[1] != "moldau"
        is_namespace = len(parts) == 3 and parts[0] in DISTRIBUTIONS and parts[1] == "moldau"
        is_test = parts[0] in DISTRIBUTIONS and parts[-1].startswith(("test_", "conftest"))
        is_ours = path in BESIDE_THE_NAMESPACE
        if (
            path.endswith((".py", ".pyi"))
            and not is_ours
            and (is_beside or is_namespace or is_test)
        ):
            found[path] = "would shadow the namespace or the standard library, or is a test"
    return found


@finding
def without_docstring(source: Source) -> Found:
    has = (ast.get_docstring(source.tree) or "").strip()
    return {} if has else {source.path: "no module docstring"}


@each_file
def _defines(source: Source) -> bool:
    """Whether the module has a function or a class."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for _, node in source.statements)


def untested(among: Iterable[Source], paths: Iterable[str]) -> Found:
    """Packages that define anything, but have no suite of their own under tests/."""
    among = tuple(among)
    defining = {
        source.module.split(".")[1]
        for source, defines in zip(among, _defines(among), strict=True)
        if source.module and defines
    }
    tested = {
        PurePosixPath(path).parts[1]
        for path in paths
        if path.startswith("tests/") and PurePosixPath(path).match("test_*.py")
    }
    return {f"tests/{name}": "has no test_*.py" for name in defining - tested}


def stray_suites(paths: Iterable[str]) -> Found:
    """Folders under tests/ that mirror no package and are no suite of their own kind."""
    paths = tuple(paths)
    known = set(packages(paths)) | set(NOT_MIRRORS)
    suites = {PurePosixPath(path).parts[1] for path in paths if path.startswith("tests/")}
    return {
        f"tests/{name}": "mirrors no package"
        for name in suites
        if "." not in name and name not in known
    }


def not_packages(paths: Iterable[str]) -> Found:
    """Test folders without `__init__.py`: two tests of one name would then be one module."""
    paths = set(paths)
    folders = {
        PurePosixPath(path).parent.as_posix()
        for path in paths
        if path.startswith("tests/") and path.endswith(".py")
    }
    return {
        f"{folder}/__init__.py": "missing"
        for folder in folders
        if f"{folder}/__init__.py" not in paths
    }


def test_every_package_is_typed_and_a_package() -> None:
    check("packages", incomplete_packages(tracked()))


def test_nothing_shadows_the_namespace_or_the_standard_library() -> None:
    check("intruders", intruders(tracked()))


def test_every_module_says_what_it_is() -> None:
    check("docstrings", without_docstring(product()))


def test_every_package_has_its_tests() -> None:
    check("untested", untested(product(), tracked()))


def test_every_suite_mirrors_a_package() -> None:
    check("stray_suites", stray_suites(tracked()))


def test_every_test_folder_is_a_package() -> None:
    check("test_packages", not_packages(tracked()))


LOG = "broker/moldau/broker/log/segment.py"


def test_a_planted_incomplete_package_is_found() -> None:
    assert set(incomplete_packages([LOG, "broker/moldau/broker/__init__.py"])) == {
        "broker/moldau/broker/py.typed"
    }


@pytest.mark.parametrize(
    "path",
    [
        "platform/__init__.py",
        "platform/conftest.py",
        "platform/test_ids.py",
        "platform/moldau/__init__.py",
        "broker/hatch_build.py",
        "connectors/pyspark_moldau/__init__.py",
        "broker/moldau/log.py",
        "broker/moldau/broker/log/test_segment.py",
    ],
)
def test_a_planted_intruder_is_found(path: str) -> None:
    assert set(intruders([path, LOG, *BESIDE_THE_NAMESPACE, "tests/test_a.py"])) == {path}


@pytest.mark.parametrize(
    ("text", "is_found"), [("", True), ('""" """', True), ("x = 1", True), ('"""It."""', False)]
)
def test_a_planted_mute_module_is_found(text: str, is_found: bool) -> None:
    assert bool(without_docstring([Source(LOG, text)])) is is_found


@pytest.mark.parametrize(
    ("test", "is_found"),
    [
        ("tests/broker/test_log.py", False),
        ("tests/broker/log/test_segment.py", False),
        ("tests/broker/log/scripts.py", True),
        ("tests/connect/test_log.py", True),
    ],
)
def test_a_planted_untested_package_is_found(test: str, is_found: bool) -> None:
    found = untested([Source(LOG, "class Segment: ...")], [LOG, test])
    assert set(found) == ({"tests/broker"} if is_found else set())
    assert not untested([Source(LOG, '"""Nothing yet."""')], [LOG, test])


def test_a_planted_stray_suite_is_found() -> None:
    paths = [LOG, "tests/broker/test_a.py", "tests/brocker/test_b.py", "tests/oracle.py"]

    assert set(stray_suites(paths)) == {"tests/brocker"}


def test_a_planted_folder_that_is_no_package_is_found() -> None:
    paths = ["tests/__init__.py", "tests/ids/test_a.py", "tests/ids/data/x.json"]

    assert set(not_packages(paths)) == {"tests/ids/__init__.py"}
