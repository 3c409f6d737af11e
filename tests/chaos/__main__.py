"""`make chaos`: kill -9 a real broker under load, 50 times; or all faults of a cluster."""

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
from tests.chaos.cluster import run_cluster_chaos
from tests.chaos.killing import Result, run_chaos

ANOMALIES_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument(
        "--nodes",
        type=int,
        default=1,
        choices=(1, 3),
        help="3: a cluster, with all kinds of faults",
    )
    parser.add_argument(
        "--rate", type=float, default=300.0, help="records a second of each producer of a cluster"
    )
    parser.add_argument("--seed", type=int, help="draws topics, settings and times; default: any")
    given = parser.parse_args()
    seed = SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    has_librdkafka = find_spec("confluent_kafka") is not None
    say(f"seed {seed}, {given.cycles} cycles")
    if given.nodes > 1:
        return of_cluster(seed, given.cycles, given.rate)
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


def of_cluster(seed: int, cycles: int, rate: float) -> int:
    with tempfile.TemporaryDirectory(prefix="moldau-chaos-") as home:
        result = run_cluster_chaos(Path(home), seed, cycles, say, rate=rate)
    for library, count in result.acknowledged.items():
        say(f"{count:>9}  acknowledged to {library}")
    say(f"{result.records:>9}  records read")
    for anomaly in result.anomalies[:ANOMALIES_SHOWN]:
        say(str(anomaly))
    say(
        f"{len(result.anomalies)} anomalies in {result.cycles} cycles, {result.seconds:.0f} s;"
        f" whole again in {median(result.heal_seconds):.1f} s"
        f" (median; {max(result.heal_seconds):.1f} s at most)"
    )
    return 1 if result.anomalies else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
