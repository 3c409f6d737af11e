"""Clients, groups and their coordinators under faults: many seeds keep all promises, and every
planted bug is found.

`python -m tests.client.simulation --seeds 2000` searches further. A failure names its seed;
`--seed N` brings it back. Put it into bad_seeds.txt when it is understood.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.client import NewTopic, TopicPartition
from moldau.client.sync import Admin, Consumer
from moldau.errors.codes import KafkaError
from moldau.runtime.simulated.self_check import repeat_elsewhere, run_seeds
from moldau.runtime.simulated.trace import Fingerprint
from moldau.testing import SyncEmbeddedBroker
from tests import suites
from tests.broker.simulation.search import Mutant, hunt_down
from tests.client.simulation.mutants import MUTANTS
from tests.client.simulation.scenario import run_clients

pytestmark = pytest.mark.usefixtures("no_world_is_left")

SEEDS = range(1000, 1012)
TWICE_EVERY = 12
BAD_SEEDS = [
    int(line.split()[0])
    for line in (Path(__file__).parent / "bad_seeds.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
NEWEST, TURNS = 2, 6
"""So many rows at the end of the file are quick, and a third of those before them each day: code
and scenario have changed under the others, which are seeds like any."""
HAPPENS = (
    "power loss",
    "kill",
    "shards loaded",
    "coordinator moves",
    "member dies",
    "pause",
    "lost",
    "revoked",
    "partitions added",
    "topics deleted",
    "members thrown out",
    "offsets set",
    "ghost heard UNKNOWN_MEMBER_ID",
    "acknowledged",
    "syncs in classic groups",
    "syncs in consumer groups",
    "many acknowledged",
    "batches split",
    "delivery heard MESSAGE_TOO_LARGE",
    "delivery heard INVALID_TIMESTAMP",
    "send heard MESSAGE_TOO_LARGE",
    "send heard UNKNOWN_TOPIC_OR_PARTITION",
    "send heard SerializationFailed",
    "send many heard SerializationFailed",
    "send many heard MESSAGE_TOO_LARGE",
)

happened: Counter[str] = Counter()


def scenario(seed: int) -> Fingerprint:
    outcome = run_clients(seed)
    happened.update(outcome.counts)
    gc.collect()
    return outcome.fingerprint


@pytest.mark.parametrize("seed", suites.seeds(reversed(BAD_SEEDS), quick=NEWEST, turns=TURNS))
def test_what_once_was_wrong_stays_right(seed: int) -> None:
    scenario(seed)


@pytest.mark.deep
def test_all_promises_are_kept_and_the_runs_go_where_it_hurts() -> None:
    happened.clear()
    run_seeds(scenario, SEEDS, twice_every=TWICE_EVERY)
    assert not [name for name in HAPPENS if not happened[name]]


def test_a_broker_in_another_thread_of_the_process_is_nobodys_business_here() -> None:
    """Its groups are none of the world's, whatever becomes of them meanwhile."""
    is_over = threading.Event()

    begins = threading.Event()

    def read(servers: str) -> None:
        given = {"bootstrap.servers": servers, "group.id": "elsewhere"}
        with Consumer(given) as reader:
            reader.subscribe(["t"])
            while not is_over.is_set():
                reader.poll(0.01)
                with suppress(KafkaError):  # until it is a member
                    reader.commit({TopicPartition("t", 0): 0})
                    begins.set()

    with SyncEmbeddedBroker() as broker, ThreadPoolExecutor(1) as pool:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic(NewTopic("t", partitions=1))
        reading = pool.submit(read, broker.bootstrap_servers)
        try:
            assert begins.wait(30)
            for seed in range(3):
                scenario(seed)
        finally:
            is_over.set()
        reading.result(60)


def test_a_seed_says_it_all_in_every_process() -> None:
    repeat_elsewhere(f"{__name__}:scenario", {3: scenario(3)})


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found_by_what_it_breaks(mutant: Mutant) -> None:
    hunted = hunt_down(run_clients, mutant, MUTANTS[mutant])
    assert hunted.is_found, str(hunted)
