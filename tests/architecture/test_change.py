"""What a run is to judge is found in git, by dates that a commit keeps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import change

HOUR_S = 60 * 60
HEAD_S = 20_000 * change.DAY_S + 12 * HOUR_S


class Repository:
    """A new one in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")

    def git(self, *arguments: str, at_s: int = HEAD_S) -> str:
        environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{each}_NAME": "a" for each in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{each}_EMAIL": "a@localhost" for each in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{each}_DATE": f"{at_s} +0000" for each in ("AUTHOR", "COMMITTER")},
        }
        command = ["git", *arguments]
        return subprocess.run(  # noqa: S603
            command, cwd=self.root, env=environ, capture_output=True, check=True, text=True
        ).stdout

    def commit(self, name: str, hours_before: int) -> str:
        """Commit one new file; return the commit."""
        (self.root / name).write_text(name)
        self.git("add", ".")
        self.git("commit", "-q", "-m", name, at_s=HEAD_S - hours_before * HOUR_S)
        return self.git("rev-parse", "HEAD").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "a").mkdir()
    return Repository(tmp_path / "a")


def test_files_since_the_newest_commit_of_four_hours_before_are_the_change(
    repository: Repository,
) -> None:
    for name, hours_before in (("old", 30), ("base", 4), ("new", 3), ("head", 0)):
        repository.commit(name, hours_before)
    repository.git("rm", "-q", "base")
    (repository.root / "not_added").touch()

    assert change.changed(repository.root, {}) == frozenset({"new", "head", "base", "not_added"})
    assert change.day(repository.root) == 20_000


def test_another_commit_can_be_named(repository: Repository) -> None:
    first = repository.commit("old", 30)
    repository.commit("base", 20)
    repository.commit("head", 0)

    assert change.changed(repository.root, {}) == frozenset({"head"})
    assert change.changed(repository.root, {change.SINCE: first}) == frozenset({"base", "head"})


def test_without_an_older_commit_every_file_counts_as_changed(
    repository: Repository, tmp_path: Path
) -> None:
    repository.commit("base", 3)
    repository.commit("head", 0)
    no_repository = tmp_path / "b"
    no_repository.mkdir()

    for root in (repository.root, no_repository):
        found = change.changed(root, {})
        assert found is None
        assert change.touches(found, "base")
    assert change.day(no_repository) == 0


def test_a_shallow_clone_does_not_know_its_change(repository: Repository, tmp_path: Path) -> None:
    repository.commit("old", 30)
    repository.commit("head", 0)
    repository.git("clone", "-q", "--depth=1", repository.root.as_uri(), str(tmp_path / "c"))

    assert change.changed(tmp_path / "c", {}) is None


def test_a_commit_that_is_not_there_leaves_the_change_unknown(repository: Repository) -> None:
    repository.commit("head", 0)

    assert change.changed(repository.root, {change.SINCE: "gone"}) is None
