"""A whole cluster in one simulated world: brokers, controllers, clients and apps, in virtual time.

    with Simulation(seed=1) as world:
        cluster = SimulatedCluster(world, brokers=3)
        cluster.await_up()
        cluster.run(my_client)        # async def my_client(runtime: Runtime) -> ...
        cluster.kill(cluster.leader_of("orders"))

Nodes are numbered from 1 and are machines `b1`, `b2`, ... of the world. Each is broker and
controller, and votes in the metadata quorum. With `controllers` there are nodes that are only
controllers, numbered from 101, and the others are only brokers. The names of methods are those of
`Cluster`, which does the same with real processes.

The brokers are those of production, found through the entry point group `moldau.cluster_nodes`: the
distribution moldau-broker must be installed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

from moldau.errors import MoldauError
from moldau.plugins import installed_plugins
from moldau.runtime.simulated.node import NodeState
from moldau.runtime.simulated.simulation import Simulation

if TYPE_CHECKING:
    from moldau.runtime import Runtime
    from moldau.runtime.simulated.node import Node

T = TypeVar("T")

GROUP: Final = "moldau.cluster_nodes"
NAME: Final = "node"
CLUSTER_ID: Final = "AAAAAAAAAAAAAAAAAAAAAw"
PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
CONTROLLERS_FROM: Final = 101
NOBODY: Final = -1
_DIRECTORY: Final = "/data"


class RunningNode(Protocol):
    """A started node: the result of an awaited call of the entry point."""

    @property
    def metadata_offset(self) -> int:
        """The offset up to which the node has applied the metadata log."""
        ...

    @property
    def is_active_controller(self) -> bool: ...

    def leader_of(self, topic: str, index: int) -> int: ...

    def isr_of(self, topic: str, index: int) -> frozenset[int]: ...

    async def wait(self) -> None:
        """Wait until the node cannot continue, and raise the reason."""
        ...

    async def aclose(self) -> None:
        """Stop the node cleanly."""
        ...


class StartNode(Protocol):
    """The type of the entry point. It starts a node that has joined its cluster on return."""

    def __call__(
        self,
        runtime: Runtime,
        directory: str,
        settings: Mapping[str, str],
        cluster_id: str,
        write_line: Callable[[str], object],
        *,
        is_first_voter: bool | None = None,
    ) -> Awaitable[RunningNode]: ...


class Program(Generic[T]):
    """A client or an app that runs on a simulated machine of its own."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._results: list[T] = []

    @property
    def is_done(self) -> bool:
        return bool(self._results)

    @property
    def result(self) -> T:
        """The return value of the program, which must have returned."""
        assert self._results, f"{self.node.name} has not returned"
        return self._results[0]

    def _returned(self, result: T) -> None:
        self._results.append(result)


class SimulatedCluster:
    """A cluster of simulated nodes. They start at once; `await_up` waits until they are up."""

    def __init__(
        self,
        world: Simulation,
        brokers: int = 3,
        *,
        controllers: int = 0,
        first_voter: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Start the nodes. `settings` apply to every node, by Kafka's names. With a `first_voter`
        the voters come from the metadata log, and the other controllers are observers until they
        are added as voters."""
        self.world = world
        self.broker_ids = range(1, brokers + 1)
        self.controller_ids = self.broker_ids
        if controllers:
            self.controller_ids = range(CONTROLLERS_FROM, CONTROLLERS_FROM + controllers)
        self.first_voter = first_voter
        self.up: dict[int, RunningNode] = {}
        """The running nodes, by id."""
        self.closing: dict[int, RunningNode] = {}
        """The nodes that are stopping cleanly, by id."""
        self.lines: dict[int, list[str]] = {number: [] for number in self.node_ids}
        """The log lines of each node, by id."""
        self.failures: list[MoldauError | OSError] = []
        """The errors that ended nodes."""
        self._given = dict(settings or {})
        self._start_node = cast(StartNode, installed_plugins().load(GROUP, NAME))
        self._programs = 0
        self.nodes: dict[int, Node] = {
            number: world.add_node(f"b{number}", self._main_of(number)) for number in self.node_ids
        }

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all nodes, brokers first."""
        return tuple(dict.fromkeys((*self.broker_ids, *self.controller_ids)))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for a client."""
        return ",".join(f"b{number}:{PORT}" for number in self.broker_ids)

    def settings_of(self, number: int) -> dict[str, str]:
        """Return the settings of a node, by Kafka's names."""
        at = {each: f"b{each}:{CONTROLLER_PORT}" for each in self.controller_ids}
        roles, listeners = [], []
        if number in self.broker_ids:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://b{number}:{PORT}")
        if number in self.controller_ids:
            roles.append("controller")
            listeners.append(f"CONTROLLER://b{number}:{CONTROLLER_PORT}")
        voters = ",".join(f"{each}@{address}" for each, address in at.items())
        is_static = self.first_voter is None
        replicas = str(min(3, len(self.broker_ids)))
        return {
            "node.id": str(number),
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": voters if is_static else "",
            "controller.quorum.bootstrap.servers": "" if is_static else ",".join(at.values()),
            "default.replication.factor": replicas,
            "min.insync.replicas": str(min(2, len(self.broker_ids))),
            "offsets.topic.replication.factor": replicas,
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, len(self.broker_ids))),
            "transaction.state.log.num.partitions": "3",
            **self._given,
        }

    def _main_of(self, number: int) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
        async def main(runtime: Runtime) -> None:
            self._forget(number)
            is_first = None if self.first_voter is None else number == self.first_voter
            node = await self._start_node(
                runtime,
                _DIRECTORY,
                self.settings_of(number),
                CLUSTER_ID,
                self.lines[number].append,
                is_first_voter=is_first,
            )
            self.up[number] = node
            try:
                await node.wait()
            except (MoldauError, OSError) as error:
                self.failures.append(error)
                raise
            finally:
                self.up.pop(number, None)
                self.closing[number] = node
                await node.aclose()
                self.closing.pop(number, None)

        return main

    # Nodes.

    def await_up(self, *numbers: int, within: float = 60) -> None:
        """Advance virtual time until the nodes with these ids, or all nodes, accept clients."""
        wanted = numbers or self.node_ids
        self.world.run_until(lambda: all(each in self.up for each in wanted), within=within)

    def is_alive(self, number: int) -> bool:
        """Whether the node has a process; a paused process counts."""
        return self.nodes[number].is_alive

    def kill(self, number: int) -> None:
        """Crash the process of a node, as `kill -9` does; the data that it wrote stays."""
        self._forget(number)
        self.nodes[number].crash()

    def power_loss(self, number: int) -> None:
        """Cut the power of a machine: unsynced data may be lost, and its peers are not notified."""
        self._forget(number)
        self.nodes[number].power_loss()

    def _forget(self, number: int) -> None:
        self.up.pop(number, None)
        self.closing.pop(number, None)

    def stop(self, number: int, *, within: float = 60) -> None:
        """Stop a node cleanly, as SIGTERM does, and advance virtual time until it has ended."""
        self.nodes[number].stop()
        self.world.run_until(lambda: not self.is_alive(number), within=within)

    def start(self, number: int) -> None:
        """Start a node again on its disk; `await_up` waits for it."""
        self.nodes[number].start()

    def pause(self, number: int) -> None:
        """Pause a node; its connections stay open."""
        self.nodes[number].pause()

    def resume(self, number: int) -> None:
        """Continue a paused node."""
        self.nodes[number].resume()

    def isolate(self, number: int) -> None:
        """Cut a node off from all others; `heal` ends the cut."""
        self.world.network.isolate(f"b{number}")

    def heal(self) -> None:
        """End every cut, continue paused nodes and start dead ones."""
        self.world.network.heal()
        for number, node in self.nodes.items():
            if not node.is_alive:
                self.start(number)
            elif node.state is NodeState.PAUSED:
                node.resume()

    # The state of the cluster.

    def controller(self) -> int:
        """Return the id of the node that leads the metadata quorum; -1 if it has no leader."""
        for number, node in self.up.items():
            if node.is_active_controller:
                return number
        return NOBODY

    def leader_of(self, topic: str, index: int = 0) -> int:
        """Return the id of a partition's leader by the newest metadata; -1 if it has none."""
        node = self._best_informed()
        return NOBODY if node is None else node.leader_of(topic, index)

    def isr_of(self, topic: str, index: int = 0) -> frozenset[int]:
        """Return the in-sync replicas of a partition by the newest metadata."""
        node = self._best_informed()
        return frozenset() if node is None else node.isr_of(topic, index)

    def _best_informed(self) -> RunningNode | None:
        return max(self.up.values(), key=lambda node: node.metadata_offset, default=None)

    def await_in_sync(
        self, topic: str, replicas: Iterable[int], index: int = 0, *, within: float = 60
    ) -> None:
        """Advance virtual time until the in-sync replicas of a partition are exactly `replicas`."""
        wanted = frozenset(replicas)
        self.world.run_until(lambda: self.isr_of(topic, index) == wanted, within=within)

    # Clients and apps.

    def start_program(
        self, main: Callable[[Runtime], Coroutine[Any, Any, T]], name: str = ""
    ) -> Program[T]:
        """Start a client or an app on a machine of its own, and return a handle for its result."""
        self._programs += 1
        programs: list[Program[T]] = []

        async def body(runtime: Runtime) -> None:
            programs[0]._returned(await main(runtime))

        node = self.world.add_node(name or f"program-{self._programs}", body, start=False)
        programs.append(Program(node))
        node.start()
        return programs[0]

    def run(
        self,
        main: Callable[[Runtime], Coroutine[Any, Any, T]],
        name: str = "",
        *,
        within: float = 60,
    ) -> T:
        """Run a client until it returns, and return its result."""
        program = self.start_program(main, name)
        self.world.run_until(lambda: program.is_done, within=within)
        return program.result


def seeds(numbers: Iterable[int]) -> Callable[[Callable[[Simulation], None]], Callable[[], None]]:
    """Run a test in a world of its own for each seed. A failure names its seed.

    @seeds(range(20))
    def test_a_killed_leader_loses_nothing(world: Simulation) -> None: ...
    """
    chosen = tuple(numbers)
    assert chosen, "no seeds"

    def decorated(test: Callable[[Simulation], None]) -> Callable[[], None]:
        def run() -> None:
            for seed in chosen:
                with Simulation(seed) as world:
                    test(world)

        run.__name__, run.__qualname__ = test.__name__, test.__qualname__
        run.__module__, run.__doc__ = test.__module__, test.__doc__
        return run

    return decorated
