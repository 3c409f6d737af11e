"""Names say what a thing is: no catch-all modules, no classes that merely manage or handle."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.facts import finding
from tests.architecture.sources import Source, classes, python

BANNED_MODULES = {"util", "utils", "common", "helper", "helpers", "core", "misc", "shared"}
BANNED_CLASSES = re.compile(r"(Manager|Handler|Processor|Helper|Util|Utils)s?$")


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
