"""`python -m examples.replicated_log [--seed N]`: run the story of one seed."""

from __future__ import annotations

import argparse
import sys

from examples.replicated_log.story import Story
from moldau.runtime.real import RealClock
from moldau.runtime.simulated.simulation import Simulation

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run the story and print what it took; Ctrl-C ends it with one line. Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.replicated_log",
        description="A replicated log in virtual time, under crashes, cuts and power losses.",
    )
    parser.add_argument("--seed", type=int, default=7, help="another seed, another story")
    seed = parser.parse_args(arguments).seed
    try:
        tell(seed)
    except KeyboardInterrupt:
        print("\ninterrupted: the story ends here", file=sys.stderr)
        return INTERRUPTED
    return 0


def tell(seed: int) -> None:
    """Run the story of that seed."""
    clock = RealClock()
    begun = clock.monotonic()
    with Simulation(seed) as world:
        Story(world, print).perform()
        took = clock.monotonic() - begun
        print(f"\nseed {seed}, trace {world.digest}, {world.loop.events} events")
        print(
            f"{world.now:.1f} s of the cluster's time in {took:.2f} s:"
            f" {world.now / took:.0f} times as fast as life"
        )


if __name__ == "__main__":
    sys.exit(main())
