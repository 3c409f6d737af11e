"""Names say what a thing is: no catch-all modules, no classes that merely manage or handle."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TypeGuard

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import each_file, finding
from tests.architecture.sources import Source, classes, product, python

BANNED_MODULES = {"util", "utils", "common", "helper", "helpers", "core", "misc", "shared"}
BANNED_CLASSES = re.compile(r"(Manager|Handler|Processor|Helper|Util|Utils)s?$")

PARTICIPLES = re.compile(
    r"[A-Z][a-z]+ed|Again|Begun|Beside|Found|Given|Kept|Left|Said|Told|Written"
)
DSL_NOUNS = {"Cogrouped", "Grouped", "Typed", "Windowed"}
"""Public names of Streams: what the methods of the same names return."""
NAMED_BY_NOUNS = ("moldau.streams", "moldau.connectors", "moldau.mirror", "moldau.spark")

ONE_MEANING = (
    *("moldau.streams", "moldau.connect", "moldau.connectors"),
    *("moldau.mirror", "moldau.pipeline", "moldau.spark"),
)
"""Packages in which the name of a public class has one meaning. The client has its own rule."""


def catch_all_modules(paths: Iterable[str]) -> Found:
    found = {}
    for path in paths:
        parts = PurePosixPath(path).with_suffix("").parts
        banned = [part for part in parts if part.lstrip("_") in BANNED_MODULES]
        if banned:
            found[path] = f"{banned[0]!r} says nothing: which noun is it?"
    return found


@finding
def vague_classes(source: Source) -> Found:
    return {
        f"{source.path}::{node.name}": "names no noun of the protocol"
        for _, node in classes(source)
        if BANNED_CLASSES.search(node.name)
    }


@finding
def participles(source: Source) -> Found:
    """Classes that are named by a participle or an adverb, as in `class Asked`."""
    return {
        f"{source.path}::{node.name}": "a class is a noun: RequestedFetch, not Asked"
        for _, node in classes(source)
        if any(map(source.is_in, NAMED_BY_NOUNS))
        and PARTICIPLES.fullmatch(node.name)
        and node.name not in DSL_NOUNS
    }


def shared_names(among: Iterable[Source]) -> Found:
    """How many files of a package define a class of the same name, if more than one does."""
    among = tuple(among)
    found = Counter(
        f"{package}: {name}"
        for source, names in zip(among, _public_classes(among), strict=True)
        for package in ONE_MEANING
        if source.is_in(package)
        for name in names
    )
    return {where: count for where, count in found.items() if count > 1}


@each_file
def _public_classes(source: Source) -> list[str]:
    return sorted({node.name for node in source.tree.body if _is_public_class(node)})


def _is_public_class(node: ast.stmt) -> TypeGuard[ast.ClassDef]:
    return isinstance(node, ast.ClassDef) and not node.name.startswith("_")


def test_no_module_is_a_catch_all() -> None:
    check("module_names", catch_all_modules(source.path for source in python()))


def test_no_class_is_a_manager_handler_or_processor() -> None:
    check("class_names", vague_classes(python()))


@pytest.mark.parametrize(
    "path", ["broker/moldau/broker/utils.py", "broker/moldau/broker/core/log.py", "tests/_util.py"]
)
def test_a_planted_catch_all_is_found(path: str) -> None:
    assert set(catch_all_modules([path, "broker/moldau/broker/log.py"])) == {path}


@pytest.mark.parametrize("name", ["GroupManager", "RequestHandler", "BatchProcessor", "Helpers"])
def test_a_planted_vague_class_is_found(name: str) -> None:
    text = f"class Group:\n    class {name}: ...\n"

    assert set(vague_classes([Source("planted.py", text)])) == {f"planted.py::{name}"}


def test_no_class_of_streams_and_connectors_is_a_participle() -> None:
    assert participles(product()) == {}


@pytest.mark.parametrize("name", ["Asked", "Told", "Found", "Picked"])
def test_a_planted_participle_is_found(name: str) -> None:
    planted = Source("streams/moldau/streams/planted.py", f"class {name}: ...\n")

    assert set(participles([planted])) == {f"{planted.path}::{name}"}


def test_the_name_of_a_class_has_one_meaning_in_its_package() -> None:
    check("shared_names", shared_names(product()))


def test_a_planted_second_meaning_of_a_name_is_found() -> None:
    text = "class Step: ...\nclass _Row: ...\n"
    planted = [
        Source(f"{folder}/moldau/{name}.py", text)
        for folder, name in (
            ("streams", "streams/one"),
            ("streams", "streams/two"),
            ("connect", "connect/one"),
        )
    ]

    assert shared_names(planted) == {"moldau.streams: Step": 2}
