"""`python -m tests.streams.kafka.renew` asks Kafka Streams again and keeps its answers.

`python -m tests.streams.kafka.renew windows joins` asks only for those files, `generated` for the
scripts that are made from seeds. What changed is printed. Our answers beside a named difference are
written down, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.peers.apache_kafka import ApacheKafka, PeerMissing, fetch_streams_driver
from tests.streams.kafka import kept
from tests.streams.kafka.answering import ours, theirs
from tests.streams.kafka.generated import scripts
from tests.streams.kafka.language import Answer, Script

SEEDED = "generated"


def renew(names: Sequence[str]) -> int:
    """Returns 1 where Kafka cannot be had."""
    try:
        kafka = fetch_streams_driver()
    except PeerMissing as missing:
        print(f"Kafka's answers stay as they are: {missing}")
        return 1
    for name in names or [*kept.suites(), SEEDED]:
        if name == SEEDED:
            _renew_generated(kafka)
        else:
            _renew_written(kafka, name)
    return 0


def _renew_written(kafka: ApacheKafka, suite: str) -> None:
    before = kept.written(suite)
    asked = [each.script for each in before]
    told = theirs(kafka, asked)
    kept.write(
        suite,
        [
            kept.Written(each.script, answer, ours(each.script), each.difference)
            for each, answer in zip(before, told, strict=True)
        ],
    )
    old = {each.script: each.theirs for each in before}
    _report(suite, old, dict(zip(asked, told, strict=True)))


def _renew_generated(kafka: ApacheKafka) -> None:
    asked = scripts()
    old = kept.generated(asked) if kept.GENERATED.exists() else {}
    before = {script: old[script.name] for script in asked if script.name in old}
    told = dict(zip(asked, theirs(kafka, asked), strict=True))
    kept.write_generated(told)
    _report(SEEDED, before, told)


def _report(name: str, before: dict[Script, Answer], now: dict[Script, Answer]) -> None:
    changed = [script.name for script in now if before.get(script) != now[script]]
    print(f"{name}: {len(now)} answers, {len(changed)} other than before")
    for title in changed:
        print(f"  {title}")


if __name__ == "__main__":
    sys.exit(renew(sys.argv[1:]))
