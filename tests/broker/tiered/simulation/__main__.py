"""`python -m tests.broker.tiered.simulation --seeds 2000`: the remote tier of a partition, from
seeds."""

from __future__ import annotations

import sys

from tests.broker.simulation.search import Subject, command
from tests.broker.tiered.simulation.mutants import MUTANTS
from tests.broker.tiered.simulation.world import run_tiered

if __name__ == "__main__":
    subject = Subject(run_tiered, MUTANTS)
    sys.exit(command(subject, "python -m tests.broker.tiered.simulation", __doc__))
