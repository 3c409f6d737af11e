"""The kinds of leader elections, as ElectLeaders has them (KIP-460)."""

from enum import IntEnum


class Election(IntEnum):
    """Which replicas may become leader."""

    PREFERRED = 0
    UNCLEAN = 1
