"""The entry points of installed packages are those that `importlib.metadata` finds."""

from __future__ import annotations

import sys
import zipfile
from importlib.metadata import distributions, version
from pathlib import Path

import pytest

from moldau.runtime.packages import installed_packages, parse_entry_points, version_of

METADATA = "Metadata-Version: 2.1\nName: my_plugin\nVersion: 1.5\n\nName: not.this\n"
ENTRY_POINTS = "[moldau.commands]\n# a comment\nhello = my_plugin.hello:command [extra]\n"


def test_the_entry_points_are_those_of_the_standard_library() -> None:
    known = {
        (each.group, each.name, each.value, found.name)
        for found in distributions()
        for each in found.entry_points
    }
    ours = {
        (each.group, each.name, each.value, each.dist.name)
        for package in installed_packages()
        for each in package.entry_points("")
    }

    assert ours == known


def test_versions_are_those_of_the_standard_library() -> None:
    assert version_of("moldau-platform") == version("moldau-platform")
    assert version_of("Hypothesis") == version("hypothesis")
    assert version_of("no-such-package") is None


def test_a_package_in_a_zip_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("my_plugin-1.5.dist-info/METADATA", METADATA)
        file.writestr("my_plugin-1.5.dist-info/entry_points.txt", ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(archive))

    found = [point for each in installed_packages() for point in each.entry_points("moldau.")]

    (hello,) = [each for each in found if each.name == "hello"]
    assert hello.value == "my_plugin.hello:command [extra]"
    assert (hello.dist.name, hello.dist.version) == ("my_plugin", "1.5")


@pytest.mark.parametrize("part", [Path("plugins"), b"plugins"])
@pytest.mark.parametrize("is_plain", [True, False])
def test_what_is_no_text_in_the_path_is_ignored_as_by_an_import(
    part: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_plain: bool
) -> None:
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("x", "")
    wanted = version("moldau-platform")
    more = [] if is_plain else [str(archive)]
    monkeypatch.setattr("sys.path", [part, *more, *sys.path])

    assert version_of("moldau-platform") == wanted


@pytest.mark.parametrize("text", ["[group]\nno value\n", "name = before:any_group\n"])
def test_a_damaged_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"entry_points\.txt"):
        list(parse_entry_points(text))
