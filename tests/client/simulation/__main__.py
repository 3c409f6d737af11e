"""`python -m tests.client.simulation --seeds 2000`: many worlds of clients in groups."""

from __future__ import annotations

import sys

from tests.broker.simulation.search import Subject, command
from tests.client.simulation.mutants import MUTANTS
from tests.client.simulation.scenario import run_clients

if __name__ == "__main__":
    subject = Subject(run_clients, MUTANTS)
    sys.exit(command(subject, "python -m tests.client.simulation", __doc__))
