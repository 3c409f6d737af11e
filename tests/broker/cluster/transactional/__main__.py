"""`python -m tests.broker.cluster.transactional --seeds 2000`: storms over transactions; with
`--clients` first, over programs with the client of the house.
"""

from __future__ import annotations

import sys

from tests.broker.cluster.transactional.client_mutants import CLIENT_MUTANTS, SCENE_CLIENT_MUTANTS
from tests.broker.cluster.transactional.client_storm import run_client_storm
from tests.broker.cluster.transactional.mutants import MUTANTS
from tests.broker.cluster.transactional.scene_mutants import SCENE_MUTANTS
from tests.broker.cluster.transactional.storm import run_transactions
from tests.broker.simulation.search import Subject, command

if __name__ == "__main__":
    subject = Subject(run_transactions, {**MUTANTS, **SCENE_MUTANTS})
    if "--clients" in sys.argv:
        sys.argv.remove("--clients")
        subject = Subject(run_client_storm, {**CLIENT_MUTANTS, **SCENE_CLIENT_MUTANTS})
    sys.exit(command(subject, "python -m tests.broker.cluster.transactional", __doc__))
