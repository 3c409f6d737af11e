"""Every planted bug can still be planted.

The hunts for them take long and run seldom. What a bug patches is told by its name, so a part that
is renamed makes it a bug that is nowhere: this fails at once then.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import pytest

from tests.broker.simulation.search import Mutant

MODULES: Final = (
    "tests.broker.cluster.mutants",
    "tests.broker.cluster.queues.mutants",
    "tests.broker.cluster.transactional.client_mutants",
    "tests.broker.cluster.transactional.mutants",
    "tests.broker.cluster.transactional.scene_mutants",
    "tests.broker.simulation.mutants",
    "tests.broker.tiered.replicas.mutants",
    "tests.broker.tiered.simulation.mutants",
    "tests.client.group.consumer_mutants",
    "tests.client.simulation.mutants",
)
_TABLE: Final = "MUTANTS"
BUGS: Final[dict[str, Mutant]] = {
    f"{name.removeprefix('tests.')}.{mutant.__name__}": mutant
    for name in MODULES
    for table, mutants in vars(import_module(name)).items()
    if table.endswith(_TABLE)
    for mutant in mutants
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_somewhere(name: str) -> None:
    with BUGS[name]():
        pass
