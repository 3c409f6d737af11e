"""`python -m tests.connect.simulation FROM TO`: run these worlds, and tell which are bad."""

from __future__ import annotations

import sys
from collections import Counter

from tests.connect.simulation.scenario import run_workers


def main() -> None:
    happened: Counter[str] = Counter()
    bad = []
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            run_workers(seed, happened)
        except Exception as error:
            bad.append(seed)
            notes = "\n".join(getattr(error, "__notes__", ()))
            print(f"seed {seed}: {error}\n{notes}", flush=True)
    print(f"bad: {bad}", *happened.most_common(), sep="\n")


if __name__ == "__main__":
    main()
