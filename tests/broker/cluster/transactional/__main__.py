"""`python -m tests.broker.cluster.transactional --seeds 2000`: storms over transactions."""

from __future__ import annotations

import sys

from tests.broker.cluster.transactional.mutants import MUTANTS
from tests.broker.cluster.transactional.storm import run_transactions
from tests.broker.simulation.search import Subject, command

if __name__ == "__main__":
    subject = Subject(run_transactions, MUTANTS)
    sys.exit(command(subject, "python -m tests.broker.cluster.transactional", __doc__))
