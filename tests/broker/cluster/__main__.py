"""`python -m tests.broker.cluster --seeds 5000`: many storms over a cluster, from seeds."""

from __future__ import annotations

import sys

from tests.broker.cluster.mutants import MUTANTS
from tests.broker.cluster.storm import run_cluster
from tests.broker.simulation.search import Subject, command

if __name__ == "__main__":
    sys.exit(command(Subject(run_cluster, MUTANTS), "python -m tests.broker.cluster", __doc__))
