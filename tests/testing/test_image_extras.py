"""The image has the packages of each extra that its page, the chart and compose files promise.

Its root is read-only, so a package that is missing there stays missing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import pytest

from tests.testing.images import DOCKER, image

ROOT: Final = DOCKER.parent
FOLDERS: Final = {
    "moldau": ".",
    **{f"moldau-{each}": each for each in ("platform", "broker", "streams", "connect")},
    "moldau-connectors": "connectors",
}
VALUES, PAGE, CONNECT = (
    "docker/helm/moldau/values.yaml",
    "docs/containers.md",
    "docker/compose.connect.yaml",
)
_REQUIREMENT: Final = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?")


@cache
def project(name: str) -> dict[str, Any]:
    path = ROOT / FOLDERS[name] / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return found


def packages(lines: Iterable[str]) -> set[str]:
    """The packages of others that these requirements bring, with their own extras."""
    found = set()
    for line in lines:
        match = _REQUIREMENT.match(line)
        assert match is not None, line
        name, extras = match.group(1), (match.group(2) or "").split(",")
        if name in FOLDERS:
            found |= packages(project(name).get("dependencies", ()))
            found |= packages_of(name, [each for each in extras if each])
        else:
            found.add(match.group())
    return found


def packages_of(name: str, extras: Iterable[str]) -> set[str]:
    """The packages of others that only these extras bring."""
    known = project(name).get("optional-dependencies", {})
    return packages(line for each in extras for line in known[each])


def installed() -> list[str]:
    """What the image installs, by the names of the distributions: `moldau[tls]`."""
    line = next(each for each in image().lines if "pip install" in each)
    names = {f"./{folder}": name for name, folder in FOLDERS.items()} | {".": "moldau"}
    found = []
    for word in line.split():
        folder, bracket, extras = word.strip('"').partition("[")
        if folder in names:
            found.append(f"{names[folder]}{bracket}{extras}")
    return found


def page_table() -> set[str]:
    """The extras that the page says the image has."""
    rows = re.findall(r"^\| (`.*?) \|", section(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}


def page_without() -> set[str]:
    """The extras that the page says the image does not have."""
    sentence = section().partition("Not in the image: ")[2].partition(".")[0]
    return set(re.findall(r"`([\w-]+)`", sentence))


def section() -> str:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    return page.partition("\n## What is installed\n")[2].partition("\n## ")[0]


def test_the_page_names_the_extras_of_the_image() -> None:
    named = {
        extra
        for line in installed()
        for extra in line.partition("[")[2].removesuffix("]").split(",")
        if extra
    }

    assert len(installed()) == len(FOLDERS)
    assert page_table() == named


def test_the_page_says_of_each_extra_that_is_not_there_that_it_is_not() -> None:
    here = packages(installed())
    lacking = {
        extra
        for extra in project("moldau")["optional-dependencies"]
        if not packages_of("moldau", [extra]) <= here
    }

    assert page_without() == lacking


@pytest.mark.parametrize(
    ("file", "promise", "extra"),
    [
        (VALUES, "\n    oidc:", "oauth"),
        (VALUES, "\nconsole:", "console"),
        (VALUES, "\nregistry:", "registry"),
        (VALUES, "\nregistry:", "registry-protobuf"),
        (VALUES, "\nconnect:", "avro"),
        (VALUES, "\nconnect:", "json-schema"),
        (VALUES, "\nconnect:", "protobuf"),
        (CONNECT, "image: postgres:", "postgres"),
        (PAGE, "jdbc:postgresql:", "postgres"),
        (PAGE, "`KAFKA_*` variables", "oauth"),
        (PAGE, "KAFKA_SSL_KEYSTORE_LOCATION", "tls"),
    ],
)
def test_the_image_has_what_a_file_promises(file: str, promise: str, extra: str) -> None:
    assert promise in (ROOT / file).read_text(encoding="utf-8"), "promised no more"
    missing = packages_of("moldau", [extra]) - packages(installed())

    assert missing == set(), f"{file} promises {promise.strip()}"


def test_an_extra_that_the_image_would_not_install_is_missed() -> None:
    without = [each.replace("oauth,", "") for each in installed()]

    assert without != installed()
    assert packages_of("moldau", ["oauth"]) - packages(without) == {"joserfc"}
