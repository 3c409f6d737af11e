"""`python -m release [--out DIR] [--only SYSTEM ...] [--here] ...`: see `release.build`.

`python -m release version [VERSION]` is in `release.versions`, `python -m release cut` in
`release.cut`.

Without options: a wheel with the kernel for each supported Python that has its headers here, on
each kind of Linux; on another system also one for this Python by its own compiler.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from release import cut, versions
from release.build import BuildFailed, build
from release.kernels import SYSTEMS, Kernel
from release.pythons import NoHeaders, all_headers, headers_in, headers_of, missing
from release.requirements import write_requirements
from release.sbom import write_sbom


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=Path("dist"), help="the folder to fill")
    made.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[each.name for each in SYSTEMS],
        metavar="SYSTEM",
        help="one kind of Linux instead of all: %(choices)s",
    )
    made.add_argument(
        "--headers",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="a folder with Python.h of a Python that is not installed here",
    )
    made.add_argument(
        "--here",
        action="store_true",
        help="compile for this machine alone, by its own compiler, without zig",
    )
    made.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="take this Python too (with --here, compile for it too)",
    )
    return made


def wanted_kernels(given: argparse.Namespace) -> list[Kernel]:
    """The kernels that zig is to compile. Raise NoHeaders."""
    own = [headers_in(folder) for folder in given.headers]
    own += [headers_of(python) for python in given.python]
    found = all_headers(own, os.environ.get("PATH", ""), Path.home())
    for minor in missing(found):
        print(
            f"release: no wheel with the kernel for Python {minor}, its users get the plain one:"
            " install it with its headers, or name them by --headers DIR",
            file=sys.stderr,
        )
    systems = [each for each in SYSTEMS if not given.only or each.name in given.only]
    return [Kernel(system, headers) for system in systems for headers in found.values()]


def main(words: list[str]) -> int:
    if words[:1] == ["version"]:
        return versions.main(words[1:])
    if words[:1] == ["cut"]:
        return cut.main(words[1:])
    asked = parser()
    given = asked.parse_args(words)
    if given.here and (given.only or given.headers):
        asked.error("--here compiles by this machine's compiler: neither --only nor --headers")
    try:
        pythons = [sys.executable] if given.here or sys.platform != "linux" else []
        kernels = [] if given.here else wanted_kernels(given)
        made = build(given.out, pythons + (given.python if given.here else []), kernels=kernels)
    except (BuildFailed, NoHeaders) as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    requirements = write_requirements(given.out, made)
    made += [write_sbom(given.out, made), requirements]
    for each in made:
        print(each)
    print(f"install with: pip install --no-deps -r {requirements} && pip install moldau")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
