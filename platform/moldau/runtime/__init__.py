"""Everything that a node may do to the outside world: clock, randomness, files, network, tasks,
threads.

`Runtime` is the interface; `moldau.runtime.real` implements it on asyncio, and
`moldau.runtime.simulated` in virtual time, where a whole cluster runs from one seed. Importing this
package does not load asyncio: `moldau.runtime.packages` is needed before any command is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.runtime.interface import Clock, Listener, Network, Runtime

__all__ = ["Clock", "Listener", "Network", "Runtime"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from moldau.runtime import interface

    return getattr(interface, name)
