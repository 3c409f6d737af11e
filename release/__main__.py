"""`python -m release [--out DIR] [--python PATH ...]`: see `release.build`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from release.build import BuildFailed, build
from release.requirements import write_requirements
from release.sbom import write_sbom


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder to fill")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PATH",
        help="compile the kernel for this Python too (this one is always taken)",
    )
    given = parser.parse_args(words)
    try:
        made = build(given.out, [sys.executable, *given.python])
    except BuildFailed as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    requirements = write_requirements(given.out, made)
    made += [write_sbom(given.out, made), requirements]
    for each in made:
        print(each)
    print(f"install with: pip install --no-deps -r {requirements} && pip install moldau")
    return 0


sys.exit(main(sys.argv[1:]))
