"""`make chaos`: kill -9 a real broker under load, 50 times."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from statistics import median

from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.chaos.killing import Result, run_chaos


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, help="draws topics, settings and times; default: any")
    given = parser.parse_args()
    seed = SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    has_librdkafka = find_spec("confluent_kafka") is not None
    say(f"seed {seed}, {given.cycles} cycles")
    if not has_librdkafka:
        say("without librdkafka, which is not installed: `make peers` does")

    async def scenario(runtime: Runtime) -> Result:
        with tempfile.TemporaryDirectory(prefix="moldau-chaos-") as home:
            return await run_chaos(
                runtime, Path(home), seed, given.cycles, say, with_librdkafka=has_librdkafka
            )

    result = run(scenario)
    for name, count in sorted(result.counts.items()):
        say(f"{count:>9}  {name}")
    say(
        f"every promise was kept in {result.cycles} cycles, {result.seconds:.0f} s;"
        f" up again in {median(result.start_seconds):.2f} s"
        f" (median; {max(result.start_seconds):.2f} s at most)"
    )
    return 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
