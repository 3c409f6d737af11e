"""`python -m tests.broker.tiered.replicas --seeds 500`: whole replicas of a tiered partition, from
seeds."""

from __future__ import annotations

import sys

from tests.broker.simulation.search import Subject, command
from tests.broker.tiered.replicas.cluster import run_replicas
from tests.broker.tiered.replicas.mutants import MUTANTS

if __name__ == "__main__":
    subject = Subject(run_replicas, MUTANTS)
    sys.exit(command(subject, "python -m tests.broker.tiered.replicas", __doc__))
