"""`python -m tests.connect.pairs`: all pairs of a seed, or all triples, a line for each case."""

from __future__ import annotations

import sys

from tests.connect.pairs.suite import SUITE
from tests.testing.planting import command

if __name__ == "__main__":
    sys.exit(command(SUITE, "tests.connect.pairs", __doc__))
