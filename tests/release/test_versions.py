"""All places have one version, one command sets it, and it never goes down."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from release import versions
from release.versions import VersionRefused, changes, date_changelog, disagreements, set_version
from tests.architecture.sources import ROOT


def copied(folder: Path) -> Path:
    """The files with the version, and the changelog."""
    for path in (*(each.path for each in versions.PLACES), versions.CHANGELOG):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)
    return folder


def test_all_places_of_this_tree_agree() -> None:
    assert disagreements() == []


def test_one_command_sets_all_places(tmp_path: Path) -> None:
    tree = copied(tmp_path)

    changed = set_version(tree, "7.8.9")

    assert changed == [each.path for each in versions.PLACES]
    assert versions.version_of(tree) == "7.8.9"
    assert disagreements(tree) == []
    assert "moldau-platform[console,registry]==7.8.9" in (tree / "pyproject.toml").read_text()
    assert '"7.8"' in (tree / "platform/moldau/link/connection.py").read_text()
    assert set_version(tree, "7.8.9") == []


@pytest.mark.parametrize("version", ["0.0.1", "1.2", "v1.2.3", "1.2.3rc1"])
def test_a_lower_version_or_none_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(VersionRefused, match=version):
        set_version(copied(tmp_path), version)


@pytest.mark.parametrize("place", [each.path for each in versions.PLACES[1:]])
def test_a_place_that_was_forgotten_is_named(tmp_path: Path, place: str) -> None:
    tree = copied(tmp_path)
    before = (tree / place).read_text()
    set_version(tree, "7.8.9")
    (tree / place).write_text(before)

    assert {each.partition(":")[0] for each in disagreements(tree)} == {place}


def test_a_place_without_a_version_is_named(tmp_path: Path) -> None:
    tree = copied(tmp_path)
    (tree / "docs/versions.md").write_text("# Version policy\n")

    assert len(disagreements(tree)) == 1


def test_the_section_of_a_version_is_its_changes(tmp_path: Path) -> None:
    tree = copied(tmp_path)
    text = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.0.1 (2026-01-01)\n\n- old\n"
    (tree / versions.CHANGELOG).write_text(text)

    with pytest.raises(VersionRefused, match="--dated"):
        changes(tree, "7.8.9")
    date_changelog(tree, "7.8.9", "2026-12-01")
    assert changes(tree, "7.8.9") == "## 7.8.9 (2026-12-01)\n\n- new\n"
    with pytest.raises(VersionRefused, match="Unreleased"):
        date_changelog(tree, "7.8.9", "2026-12-01")


@pytest.mark.parametrize(("version", "commit"), versions.COMMITS.items())
def test_a_commit_that_stands_for_a_version_calls_itself_so(version: str, commit: str) -> None:
    words = ["git", "-C", str(ROOT), "show", f"{commit}:pyproject.toml"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if shown.returncode:
        pytest.skip(f"this clone does not have {commit} (a shallow clone?)")

    assert f'version = "{version}"' in shown.stdout
