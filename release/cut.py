"""Cuts a release into one folder: `python -m release cut`, or `make release`.

It checks that the tree is clean and that all places have one version, and then makes the wheels and
source archives, the context of the image, the chart, the site, the changes, the bill of materials
and the checksums. Nothing is pushed and no tag is made: the last lines say how.

Invariants: everything comes from the commit that is checked out; two cuts of one commit with the
same tools have the same archives, byte by byte, but for the site, whose pages have the day.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.versions import ROOT, VersionRefused, changes, disagreements, version_of

CHECKSUMS: Final = "SHA256SUMS"
CHART: Final = "docker/helm/moldau"
IMAGE: Final = (
    *("platform", "broker", "streams", "connect", "connectors", "docker"),
    *("pyproject.toml", "constraints.txt", "README.md", "LICENSE"),
)
"""What docker/Dockerfile.dockerignore lets into the context, and the files of docker/."""


class CutFailed(Exception):
    """A step ended with an error; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it makes, and the call that makes it."""

    makes: str
    run: Callable[[], object]


def refusals(root: Path) -> list[str]:
    """Return why this tree cannot be released as it is."""
    found = [f"not committed: {line}" for line in _git(root, "status", "--porcelain").splitlines()]
    found += disagreements(root)
    try:
        changes(root, version_of(root))
    except VersionRefused as refused:
        found.append(str(refused))
    return found


def steps(root: Path, out: Path, dist_words: Sequence[str]) -> list[Step]:
    """Return all steps, in order. `dist_words` are options of `python -m release`."""
    version = version_of(root)
    name = f"moldau-{version}"
    notes, image = out / f"{name}-changes.md", out / f"{name}-image.tar.gz"
    chart, site = out / f"{name}.tgz", out / f"{name}-site.tar.gz"
    return [
        Step(
            "wheels, source archives, moldau.txt, moldau.cdx.json", lambda: _dist(out, dist_words)
        ),
        Step(image.name, lambda: _archive(root, image, IMAGE)),
        Step(chart.name, lambda: _archive(root / CHART, chart, (".",), prefix="moldau/")),
        Step(site.name, lambda: _site(out, site, version)),
        Step(notes.name, lambda: notes.write_text(changes(root, version), encoding="utf-8")),
        Step(CHECKSUMS, lambda: write_checksums(out)),
    ]


def write_checksums(out: Path) -> Path:
    """Write the hashes of all files of the folder, as `sha256sum --check` reads them."""
    written = out / CHECKSUMS
    files = sorted(each for each in out.iterdir() if each.is_file() and each != written)
    lines = [f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files]
    written.write_text("".join(lines), encoding="ascii")
    return written


def main(words: list[str]) -> int:
    asked = argparse.ArgumentParser(prog="release cut", description="make all that a release has")
    asked.add_argument("--out", type=Path, default=Path("dist"), help="the folder to fill anew")
    asked.add_argument("--dry-run", action="store_true", help="check, and say the steps")
    given, dist_words = asked.parse_known_args(words)
    planned, version = steps(ROOT, given.out.resolve(), dist_words), version_of()
    refused = refusals(ROOT)
    print(f"moldau {version} of commit {_git(ROOT, 'rev-parse', '--short', 'HEAD').strip()}")
    for each in refused:
        print(f"release: {each}", file=sys.stderr)
    if given.dry_run:
        for number, step in enumerate(planned, 1):
            print(f"{number}. {given.out}/: {step.makes}")
    if refused or given.dry_run:
        return 1 if refused else 0
    if given.out.exists():
        shutil.rmtree(given.out)
    given.out.mkdir(parents=True)
    try:
        for number, step in enumerate(planned, 1):
            print(f"{number} of {len(planned)}: {step.makes}", flush=True)
            step.run()
    except CutFailed as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    print(f"all is in {given.out}/; nothing is pushed and no tag is made. When it is right:")
    print(f"  git tag -a v{version} -m 'moldau {version}'")
    return 0


def _dist(out: Path, words: Sequence[str]) -> None:
    """Make the archives. What it says of Pythons without headers is shown at once."""
    command = [sys.executable, "-m", "release", "--out", str(out), *words]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
    if done.returncode:
        raise CutFailed("the archives are not made: the lines above say why")


def _site(out: Path, site: Path, version: str) -> None:
    """Build the pages of this version, and pack them; the folder itself goes again."""
    folder = out / "site"
    _run([sys.executable, "-m", "release.docs", str(folder)], ROOT)
    if not (folder / version).is_dir():
        raise CutFailed(
            f"the site is of {sorted(each.name for each in folder.iterdir())}, not of {version}: "
            "`make venv` installs this version"
        )
    listed = _run(
        ["tar", "--sort=name", "--owner=0", "--group=0", "-C", str(folder), "-c", "."], out
    )
    _compress(listed, site)
    shutil.rmtree(folder)


def _archive(folder: Path, made: Path, paths: Sequence[str], prefix: str = "") -> None:
    """Pack files of the commit, with the commit's date."""
    words = ["git", "archive", "--format=tar", f"--prefix={prefix}", "HEAD", *paths]
    _compress(_run(words, folder), made)


def _compress(content: bytes, made: Path) -> None:
    with made.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(content)


def _git(root: Path, *words: str) -> str:
    return _run(["git", *words], root).decode()


def _run(words: Sequence[str], folder: Path) -> bytes:
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)  # noqa: S603
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise CutFailed(f"{' '.join(words)}\n{said}")
    return done.stdout
