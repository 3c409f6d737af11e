"""The scripts of Kafka's driver that can run on a broker."""

from __future__ import annotations

from tests.streams.kafka import kept
from tests.streams.kafka.generated import FAMILIES, scripts
from tests.streams.kafka.language import Script


def suitable(script: Script) -> bool:
    """Whether it leaves the wall clock alone, which only the driver can move."""
    by_wall = any("punctuate wall" in line for line in script.topology)
    return not by_wall and not any(line.startswith("clock ") for line in script.inputs)


def sampled() -> list[Script]:
    """One script of every third family."""
    chosen = {f"{family} 3" for family in list(FAMILIES)[::3]}
    return [each for each in scripts() if each.name in chosen and suitable(each)]


def all_scripts() -> list[Script]:
    """Return those by hand, then the first of each family, then the second of each, and so on."""
    by_hand = [each.script for suite in kept.suites() for each in kept.written(suite)]
    generated = sorted(scripts(), key=lambda each: int(each.name.rpartition(" ")[2]))
    return [each for each in [*by_hand, *generated] if suitable(each)]
