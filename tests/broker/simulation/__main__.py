"""`python -m tests.broker.simulation --seeds 2000`: many lives of a whole broker, from seeds."""

from __future__ import annotations

import sys

from tests.broker.simulation.mutants import MUTANTS
from tests.broker.simulation.scenario import run_broker
from tests.broker.simulation.search import Subject, command

if __name__ == "__main__":
    subject = Subject(run_broker, MUTANTS)
    sys.exit(command(subject, "python -m tests.broker.simulation", __doc__))
