"""`python -m tests.broker.cluster.queues --seeds 1000`: storms over share groups."""

from __future__ import annotations

import sys

from tests.broker.cluster.queues.mutants import MUTANTS
from tests.broker.cluster.queues.storm import run_queues
from tests.broker.simulation.search import Subject, command

if __name__ == "__main__":
    sys.exit(
        command(Subject(run_queues, MUTANTS), "python -m tests.broker.cluster.queues", __doc__)
    )
