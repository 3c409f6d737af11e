"""A whole cluster in one process, in virtual time, from one seed.

    def test_a_node_answers() -> None:
        with Simulation(seed=1) as world:
            world.add_node("server", serve)
            client = world.add_node("client", ask)
            world.run_until(lambda: client.state is State.EXITED, within=10)

The modules: `simulation` is the world; `node` starts, crashes, pauses and restarts; `fabric` has
the faults of the network; `disk` the faults of a disk; `faults` random faults from the seed; `loop`
virtual time; `trace` the hash that proves two runs equal; `self_check` runs seeds twice.
"""

from __future__ import annotations

from moldau.runtime.simulated.faults import FaultPlan, FaultScheduler
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled
from moldau.runtime.simulated.link import LinkOptions
from moldau.runtime.simulated.node import Node, NodeState
from moldau.runtime.simulated.refusal import RealWorldRefused
from moldau.runtime.simulated.report import SimulationFailed
from moldau.runtime.simulated.self_check import NotRepeatable, repeat_elsewhere, run_seeds
from moldau.runtime.simulated.simulation import Options, Simulation
from moldau.runtime.simulated.trace import Fingerprint

__all__ = [
    "FaultPlan", "FaultScheduler", "Fingerprint", "Incarnation", "LinkOptions", "Node",
    "NodeKilled", "NodeState", "NotRepeatable", "Options", "RealWorldRefused", "Simulation",
    "SimulationFailed", "repeat_elsewhere", "run_seeds",
]  # fmt: skip
