"""`python -m tests.fuzz [TARGET...] [--seconds N] [--random] [--renew]`; exit 1 on a finding."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.fuzz import corpus, search
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SECONDS_DEFAULT = 60
ALL = tuple(TARGETS.values())


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    targets = [target for group in options.targets or [ALL] for target in group]
    if options.renew:
        for target in targets:
            corpus.renew(target.name, target.seeds())
        return 0
    labels = {
        target.name: search.guided(target, options.seconds)
        if search.has_atheris() and not options.random
        else search.at_random(target, options.seconds, seed=options.seed)
        for target in targets
    }
    for name, found in labels.items():
        print(f"{name}: {'found ' + ', '.join(found) if found else 'nothing found'}")
    return 1 if any(labels.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", type=_targets, metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=SECONDS_DEFAULT, help="for each target")
    parser.add_argument("--random", action="store_true", help="mutate only, without atheris")
    parser.add_argument("--seed", type=int, default=0, help="of the random search")
    parser.add_argument("--renew", action="store_true", help="make the seeds of the corpus again")
    return parser


def _targets(name: str) -> tuple[Target, ...]:
    if name == "all":
        return ALL
    if name not in TARGETS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of: all, {', '.join(TARGETS)}")
    return (TARGETS[name],)


if __name__ == "__main__":
    sys.exit(main())
