"""Everything that a node may do to the outside world: clock, randomness, files, network, tasks,
threads.

`Runtime` is the interface; `moldau.runtime.real` implements it on asyncio, and
`moldau.runtime.simulated` in virtual time, where a whole cluster runs from one seed.
"""

from __future__ import annotations

from moldau.runtime.interface import Clock, Listener, Network, Runtime

__all__ = ["Clock", "Listener", "Network", "Runtime"]
