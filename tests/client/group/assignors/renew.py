"""Asks Java's assignors for answers to keep: `python -m tests.client.group.assignors.renew`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.client.group.assignors.cases import GOLDEN, GOLDEN_SEEDS, story
from tests.peers.apache_kafka import fetch


def main() -> None:
    """Writes golden.jsonl."""
    cases = [case for seed in GOLDEN_SEEDS for case in story(seed)]
    told = [case.to_json() for case in cases]
    answers = fetch().run_source(Path(__file__).with_name("Assignors.java"), told)
    with GOLDEN.open("w", encoding="ascii") as out:
        for case, answer in zip(told, answers, strict=True):
            whole = {"case": json.loads(case), "answer": json.loads(answer)}
            out.write(json.dumps(whole) + "\n")


if __name__ == "__main__":
    main()
