"""`python -m tests.broker.simulation --seeds 2000`: many lives of a whole broker, from seeds."""

from __future__ import annotations

import argparse
import os
import sys

from tests.broker.simulation.search import report, report_mutants, report_one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broker.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only, with all that it says")
    parser.add_argument("--mutants", action="store_true", help="how soon planted bugs are found")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.mutants:
        is_good = report_mutants(say)
    elif given.seed is not None:
        is_good = report_one(given.seed, say)
    else:
        seeds = range(given.first, given.first + given.seeds)
        is_good = report(seeds, given.processes, say)
    return 0 if is_good else 1


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
