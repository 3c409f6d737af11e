"""A release is cut from a clean tree with one version, and has all parts with their hashes."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from release.cut import CHECKSUMS, refusals, steps, write_checksums
from release.versions import PLACES, date_changelog, version_of
from tests.architecture.sources import ROOT
from tests.testing.charts import program
from tests.wheels import needs_uv

needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="needs mkdocs-material: make docs"
)
DAY = "2026-12-01"
PATIENCE_S = 900.0


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    done = subprocess.run(  # noqa: S603
        ["git", *identity, *words],  # noqa: S607
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def committed(folder: Path, paths: Iterable[str]) -> Path:
    """Files of this tree in a repository of their own, with a dated changelog."""
    folder.mkdir()
    for each in paths:
        if (ROOT / each).is_file():
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / each, folder / each)
    if "## Unreleased\n" in (folder / "CHANGELOG.md").read_text():
        date_changelog(folder, version_of(folder), DAY)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "a release")
    return folder


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that have the version, and those that are packed as they are."""
    paths = tracked("docker", "release", ".gitignore", "CHANGELOG.md", "constraints.txt")
    paths += ["README.md", "LICENSE"]
    folder = tmp_path_factory.mktemp("cut") / "tree"
    return committed(folder, [*paths, *(each.path for each in PLACES)])


def tracked(*within: str) -> list[str]:
    words = ("ls-files", "--cached", "--others", "--exclude-standard", "--", *within)
    return git(ROOT, *words).splitlines()


def cut(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "release", "cut", *words],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_clean_tree_is_not_refused(tree: Path) -> None:
    assert refusals(tree) == []


def test_a_change_or_another_version_is_refused(tree: Path) -> None:
    manifest = tree / "broker" / "pyproject.toml"
    before = manifest.read_text()
    manifest.write_text(before.replace(f'version = "{version_of(tree)}"', 'version = "9.9.9"'))
    (tree / "left.txt").write_text("")
    try:
        found = "\n".join(refusals(tree))
    finally:
        manifest.write_text(before)
        (tree / "left.txt").unlink()

    assert "not committed:  M broker/pyproject.toml" in found
    assert "not committed: ?? left.txt" in found
    assert "broker/pyproject.toml:7 has 9.9.9" in found


def test_an_undated_changelog_is_refused(tree: Path) -> None:
    changelog = tree / "CHANGELOG.md"
    before = changelog.read_text()
    changelog.write_text(before.replace(f"## {version_of(tree)} ({DAY})", "## Unreleased"))
    try:
        found = "\n".join(refusals(tree))
    finally:
        changelog.write_text(before)

    assert "CHANGELOG.md begins with Unreleased" in found
    assert "--dated" in found


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "folder").mkdir()

    write_checksums(tmp_path)
    write_checksums(tmp_path)

    digest = hashlib.sha256(b"a").hexdigest()
    assert (tmp_path / CHECKSUMS).read_text() == f"{digest}  a.whl\n"


def test_a_dry_run_says_the_steps_and_makes_nothing(tree: Path) -> None:
    answer = cut(tree, "--dry-run")

    assert answer.returncode == 0, answer.stderr
    assert [line[:2] for line in answer.stdout.splitlines()[1:]] == [f"{n}." for n in range(1, 7)]
    assert not (tree / "dist").exists()


def test_the_chart_and_the_context_of_the_image_are_those_of_the_commit(
    tree: Path, tmp_path: Path
) -> None:
    planned = {each.makes.rpartition("-")[2]: each for each in steps(tree, tmp_path, ())}
    (tree / "docker" / "helm" / "moldau" / "left.txt").write_text("")
    try:
        image = next(each for name, each in planned.items() if name == "image.tar.gz")
        chart = next(each for name, each in planned.items() if name.endswith(".tgz"))
        image.run()
        chart.run()
        first = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
        image.run()
        chart.run()
    finally:
        (tree / "docker" / "helm" / "moldau" / "left.txt").unlink()
    version = version_of(tree)

    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == first
    with tarfile.open(tmp_path / f"moldau-{version}.tgz") as packed:
        names = packed.getnames()
        inside = packed.extractfile("moldau/Chart.yaml")
        assert inside is not None
        assert f"appVersion: {version}" in inside.read().decode()
    assert "moldau/values.yaml" in names
    assert "moldau/left.txt" not in names
    with tarfile.open(tmp_path / f"moldau-{version}-image.tar.gz") as packed:
        names = packed.getnames()
    assert {"docker/Dockerfile", "platform/pyproject.toml", "constraints.txt"} <= {*names}
    assert not [each for each in names if each.startswith(("tests/", "docs/", "."))]


def test_helm_takes_the_chart(tree: Path, tmp_path: Path) -> None:
    (chart,) = (each for each in steps(tree, tmp_path, ()) if each.makes.endswith(".tgz"))
    chart.run()

    answer = subprocess.run(  # noqa: S603
        [program("helm"), "show", "chart", str(tmp_path / chart.makes)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert f"version: {version_of(tree)}" in answer.stdout


@needs_uv
@needs_mkdocs
@pytest.mark.real
@pytest.mark.deep
@pytest.mark.slow
def test_a_release_for_this_machine_has_all_parts(tmp_path: Path) -> None:
    tree = committed(tmp_path / "tree", tracked())
    answer = cut(tree, "--here")

    assert answer.returncode == 0, answer.stderr
    version, out = version_of(tree), tree / "dist"
    names = {each.name for each in out.iterdir()}
    parts = (".tgz", "-image.tar.gz", "-site.tar.gz", "-changes.md", "-py3-none-any.whl")
    assert {f"moldau-{version}{each}" for each in parts} <= names
    assert {"moldau.cdx.json", "moldau.txt", CHECKSUMS} <= names
    assert all(version in each for each in names if each.endswith((".whl", ".gz", ".tgz")))
    listed = dict(line.split("  ")[::-1] for line in (out / CHECKSUMS).read_text().splitlines())
    assert listed.keys() == names - {CHECKSUMS}
    for name, digest in listed.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    with tarfile.open(out / f"moldau-{version}-site.tar.gz") as packed:
        assert {"./versions.json", f"./{version}/reporting.html"} <= {*packed.getnames()}
    assert (
        json.loads((out / "moldau.cdx.json").read_text())["metadata"]["component"]["version"]
        == version
    )
    assert f"git tag -a v{version}" in answer.stdout
    assert git(tree, "tag") == ""
