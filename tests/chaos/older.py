"""An older version of this repository, whose brokers run beside those of today.

Its source is that of the newest tag, or, while there is none, of the commit that `release.versions`
names for 0.1.0; it is taken out of git into a folder. A clone without that history has no older
version.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from release.versions import COMMITS, FIRST

ROOT: Final = Path(__file__).parents[2]
DISTRIBUTIONS: Final = ("platform", "broker", "streams", "connect", "connectors")
KERNEL: Final = "platform/moldau/records"

# Runs in each process before anything else, after the paths of installed packages are known.
_SITE: Final = """
import sys
sys.path[:] = [each for each in sys.path if not each.startswith({today!r} + "/")
               or "/site-packages" in each]
sys.path[:0] = {older!r}
"""


def older_commit() -> str:
    """The newest tag or the commit of 0.1.0; skips where this clone has neither."""
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
    commit = tag or COMMITS[FIRST]
    if _git("cat-file", "-t", f"{commit}^{{commit}}") != "commit":
        pytest.skip(f"this clone does not have {commit}, the older version (a shallow clone?)")
    return commit


def _git(*words: str) -> str:
    done = subprocess.run(  # noqa: S603 (our own command)
        ["git", "-C", str(ROOT), *words],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


class Older:
    """The older version's source, unpacked."""

    def __init__(self, folder: Path) -> None:
        self.commit = older_commit()
        archive = subprocess.run(  # noqa: S603 (our own command)
            ["git", "-C", str(ROOT), "archive", self.commit, *DISTRIBUTIONS],  # noqa: S607
            capture_output=True,
            check=True,
        ).stdout
        self._tree = folder / "older"
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(self._tree, filter="data")
        self._take_kernel()
        site = folder / "site"
        site.mkdir()
        paths = [str(self._tree / each) for each in DISTRIBUTIONS]
        code = _SITE.format(today=str(ROOT), older=paths)
        (site / "sitecustomize.py").write_text(code)
        self._site = str(site)

    def _take_kernel(self) -> None:
        """Use the compiled records of today if their source is the same."""
        today, older = ROOT / KERNEL, self._tree / KERNEL
        sources = sorted(each.name for each in today.glob("_speed.p*"))
        if all((older / each).read_bytes() == (today / each).read_bytes() for each in sources):
            for each in today.glob("_speed*.so"):
                (older / each.name).symlink_to(each)

    @contextmanager
    def in_new_processes(self) -> Iterator[None]:
        """Processes that start in the block run the older version."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", self._site)
            yield

    def check(self) -> None:
        """A process of the older version has no module of today."""
        names = ("broker.server", "records", "client.sync", "cli", "runtime")
        code = "import importlib as i\n" + "\n".join(
            f"print(i.import_module('moldau.{each}').__file__)" for each in names
        )
        with self.in_new_processes():
            found = subprocess.run(  # noqa: S603 (our own command)
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            ).stdout.splitlines()
        assert len(found) == len(names)
        assert all(each.startswith(str(self._tree)) for each in found), found
