"""Five distributions and the one that brings them all: one version, one licence, plain pins."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import pytest

from tests.architecture.allowed import Found, check
from tests.architecture.pins import constraints
from tests.architecture.sources import DISTRIBUTIONS, ROOT, tracked

Manifests = Mapping[str, dict[str, Any]]
"""Folder ("." for the root) -> its pyproject.toml."""

PIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*==[0-9][0-9A-Za-z.+!]*")
NAME = re.compile(r"[A-Za-z0-9._-]+")


def manifests() -> Manifests:
    folders = (".", *DISTRIBUTIONS)
    return {
        folder: tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        for folder in folders
    }


def disagreements(among: Manifests) -> Found:
    """Where a manifest differs from what all of them must say alike."""
    found = {}
    root = among["."]["project"]
    for folder, manifest in among.items():
        project = manifest["project"]
        expected = {
            "name": "moldau" if folder == "." else f"moldau-{folder}",
            "version": root["version"],
            "requires-python": root["requires-python"],
            "license": "Apache-2.0",
        }
        for key, value in expected.items():
            if project.get(key) != value:
                found[f"{folder}: {key}"] = f"is {project.get(key)!r}, not {value!r}"
        for needed in project.get("dependencies", ()):
            if needed.startswith("moldau") and not needed.endswith(f"=={root['version']}"):
                found[f"{folder}: {needed}"] = f"not pinned to {root['version']}"
    brought = {NAME.match(needed).group() for needed in root["dependencies"]}  # type: ignore[union-attr]
    for folder in among.keys() - {"."}:
        if f"moldau-{folder}" not in brought:
            found[f".: moldau-{folder}"] = "the whole does not bring it"
    return found


def bad_pins(lines: Iterable[str]) -> Found:
    """Lines of the constraints that are no plain pin, or stand elsewhere than `sort` puts them."""
    found = {}
    before = ""
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if not PIN.fullmatch(line):
            found[line] = "no plain name==version"
        elif line < before:
            found[line] = f"stands after {before}"
        before = line
    return found


def unpinned(among: Manifests, lines: Iterable[str]) -> Found:
    """Dependencies, of the product and of the groups of tools, that no constraint pins."""
    pinned = {line.partition("==")[0] for line in lines}
    root = among["."]
    needed = {
        requirement
        for manifest in among.values()
        for requirement in manifest["project"].get("dependencies", ())
    } | {each for group in root["dependency-groups"].values() for each in group}
    return {
        name: "not pinned in constraints.txt"
        for name in (_normal(requirement) for requirement in needed)
        if name not in pinned and not name.startswith("moldau-")
    }


def _normal(requirement: str) -> str:
    match = NAME.match(requirement)
    assert match is not None, requirement
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def test_all_manifests_agree() -> None:
    check("manifests", disagreements(manifests()))


def test_pins_are_plain_and_sorted() -> None:
    check("pins", bad_pins(constraints()))


def test_everything_needed_is_pinned() -> None:
    check("unpinned", unpinned(manifests(), constraints()))


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="ascii")

    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_every_distribution_carries_the_licence(folder: str) -> None:
    """A file and no link: source archives and other systems have none."""
    licence = ROOT / folder / "LICENSE"

    assert not licence.is_symlink()
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()


def _set_version(project: dict[str, Any]) -> None:
    project["version"] = "0.0.9"


def _set_licence(project: dict[str, Any]) -> None:
    project["license"] = "MIT"


def _loosen(project: dict[str, Any]) -> None:
    project["dependencies"] = ["moldau-platform>=0.1"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (_set_version, "broker: version"),
        (_set_licence, "broker: license"),
        (_loosen, "broker: moldau-platform>=0.1"),
    ],
)
def test_a_planted_disagreement_is_found(
    change: Callable[[dict[str, Any]], None], where: str
) -> None:
    planted = copy.deepcopy(dict(manifests()))
    change(planted["broker"]["project"])

    assert set(disagreements(planted)) == {where}


def test_a_distribution_that_the_whole_forgets_is_found() -> None:
    planted = copy.deepcopy(dict(manifests()))
    planted["."]["project"]["dependencies"].remove(
        f"moldau-streams=={planted['.']['project']['version']}"
    )

    assert set(disagreements(planted)) == {".: moldau-streams"}


@pytest.mark.parametrize(
    "line",
    [
        "ruff>=0.17",
        "ruff",
        "ruff @ https://example.org/ruff.whl",
        "ruff==0.17.5 --hash=sha256:00",
        "Ruff==0.17.5",
        "-r other.txt",
    ],
)
def test_a_planted_pin_that_is_not_plain_is_found(line: str) -> None:
    assert set(bad_pins(["# pins", "attrs==1.0", line])) == {line}


def test_a_planted_pin_out_of_order_is_found() -> None:
    assert set(bad_pins(["mypy-extensions==1.0", "mypy==2.0", "attrs==1.0"])) == {"attrs==1.0"}


def test_a_planted_dependency_without_a_pin_is_found() -> None:
    planted = copy.deepcopy(dict(manifests()))
    planted["streams"]["project"]["dependencies"].append("No_Such.Thing>=1; python_version<'4'")
    known = unpinned(manifests(), constraints())

    assert set(unpinned(planted, constraints())) - set(known) == {"no-such-thing"}


def extra_names(among: Manifests) -> Mapping[str, set[str]]:
    """By folder, the names of the extras."""
    return {
        folder: set(manifest["project"].get("optional-dependencies", ()))
        for folder, manifest in among.items()
    }


def test_the_whole_has_every_extra_of_its_parts() -> None:
    """So that there is one name for each: `moldau[avro]`."""
    names = extra_names(manifests())
    parts = set().union(*(each for folder, each in names.items() if folder != "."))
    assert names["."] == parts


MISNAMED = re.compile(
    r"moldau-[a-z]+\[[a-z{]|pip install [^'\"\n]*\bmoldau\[|[^'\"]moldau\[[a-z-]+\]"
)
"""An extra of a part, and one that a shell would take for a pattern."""


def misnamed_extras(path: str, text: str) -> Found:
    """Where a text names an extra in another way than `'moldau[avro]'`."""
    return {
        f"{path}, line {number}": line.strip()
        for number, line in enumerate(text.splitlines(), 1)
        if "pip install" in line and MISNAMED.search(line)
    }


def test_extras_are_named_alike_everywhere() -> None:
    found: dict[str, int | str] = {}
    for path in tracked():
        is_ours = path.endswith((".py", ".md")) and not path.startswith("tests/")
        if is_ours:
            found |= misnamed_extras(path, (ROOT / path).read_text(encoding="utf-8"))
    assert not found


OURS = re.compile(r"pip install '?moldau\b")
"""A command that works where moldau is in an index, or where `docs/install.md` was followed."""


FROM_AN_INDEX: Final = re.compile(
    r"(?<!dist/moldau\.txt && )pip install (?:--find-links \S+ )?'?moldau\b(?!\[)"
)
"""A command that would take a stranger's package of our name, as long as no index has ours."""


def unexplained_installs(path: str, text: str) -> Found:
    """Where a page lacks a link to `docs/install.md`, code has the command itself, or it takes
    moldau from an index."""
    if FROM_AN_INDEX.search(text):
        return {path: "not from the folder of wheels"}
    if not OURS.search(text) or path in ("docs/install.md", "platform/moldau/plugins/extras.py"):
        return {}
    if path.endswith(".md"):
        return {} if "(install.md" in text or "(docs/install.md" in text else {path: "no link"}
    return {path: "not by moldau.plugins.extras"}


def test_each_command_that_installs_moldau_works_today() -> None:
    found: dict[str, int | str] = {}
    for path in tracked():
        is_history = path == "CHANGELOG.md" or path.startswith(("tests/", "bench/", "release/"))
        if path.endswith((".py", ".md")) and not is_history:
            found |= unexplained_installs(path, (ROOT / path).read_text(encoding="utf-8"))
    assert not found


@pytest.mark.parametrize(
    ("path", "text", "is_found"),
    [
        ("docs/x.md", "pip install 'moldau[avro]'", True),
        ("docs/x.md", "pip install 'moldau[avro]', see [install](install.md)", False),
        ("docs/x.md", "pip install moldau, see [install](install.md)", True),
        ("docs/x.md", "pip install --find-links dist moldau\n(install.md)", True),
        ("docs/x.md", "x -r dist/moldau.txt && pip install moldau\n(install.md)", False),
        ("docs/x.md", "pip install moldaux", False),
        ("connect/moldau/connect/x.py", "\"pip install 'moldau[avro]'\"", True),
    ],
)
def test_a_planted_command_that_installs_nothing_is_found(
    path: str, text: str, is_found: bool
) -> None:
    assert bool(unexplained_installs(path, text)) is is_found


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install 'moldau[avro]'", False),
        ("\"Spark is missing: pip install 'moldau[spark]'\"", False),
        ("pip install 'moldau-platform[avro]'", True),
        ("pip install moldau[avro]", True),
        ("pip install moldau-connectors[jdbc]", True),
    ],
)
def test_a_planted_name_of_an_extra_is_found(text: str, is_found: bool) -> None:
    assert bool(misnamed_extras("docs/x.md", text)) is is_found
