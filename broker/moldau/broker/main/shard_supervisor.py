"""`moldau broker start --shards N`: several brokers of one cluster on this host, by one command.

Each shard is a process of its own, started with the arguments of this command and its number. This
process prints a line for each, restarts one that ends by itself, and stops all on the first SIGTERM
or Ctrl-C: shard 0 last, because the others may need it as their controller to leave the cluster.

Invariants: no shard outlives this process, however that ends. The log of a shard goes to standard
error. A shard that does not come up at the start ends the command.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Final

from moldau.broker.main.exposure import insecure_layer, refuse_exposed
from moldau.broker.main.given import settings_given
from moldau.broker.main.shards import FOLDER, shard_folder, shard_layer
from moldau.broker.server.storage import known_cluster, places_of
from moldau.cli.command import Context, Exit
from moldau.errors import ConfigError, MoldauError
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.node_processes import NodeProcess, pause_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moldau.config import Layer, Settings
    from moldau.runtime.files import Files

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
EXIT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.2
RESTART_SECONDS: Final = 1.0
_UP: Final = " is up"
_PASSED_VALUES: Final = (
    "config",
    "console",
    "data",
    "listen",
    "log_level",
    "metrics",
    "otlp",
    "registry",
)
"""The options of `moldau broker start` with a value that each shard gets as well."""
_PASSED_FLAGS: Final = ("insecure", "kafka_environment", "log_json")
"""Those without a value."""


class ShardFailed(MoldauError):
    """A shard did not start; the log lines above it show the reason."""


def is_standalone(arguments: Namespace, settings: Settings) -> bool:
    """Whether no setting names controllers, so that the shards are a cluster of their own."""
    from moldau.broker.settings.controller import controller_quorum_voters

    return arguments.config is None and not settings[controller_quorum_voters]


def shard_settings(arguments: Namespace, settings: Settings) -> Layer:
    """Return the settings of this process's shard that differ from the given settings."""
    return shard_layer(
        settings,
        arguments.shard,
        arguments.shards,
        is_standalone=is_standalone(arguments, settings),
    )


def run_shards(arguments: Namespace, context: Context) -> int:
    """Run all shards until a signal, and return the exit code."""
    from moldau.runtime.real import RealRuntime
    from moldau.runtime.signals import interrupted_by_sigterm

    runtime = RealRuntime("shards")
    settings = settings_given(
        arguments,
        context.environment,
        runtime.files,
        arguments.listen,
        is_image=arguments.kafka_environment,
    )
    refuse_exposed(settings.overlaid(insecure_layer(arguments, settings)))
    # report impossible settings once, before any shard starts
    for number in range(arguments.shards):
        arguments.shard = number
        shard_settings(arguments, settings)
    known = _cluster_id(runtime.files, settings, arguments)
    cluster_id = known or format_uuid(new_uuid(runtime.random))
    shards = Shards(shard_words(arguments, cluster_id), arguments.shards, context)
    try:
        with interrupted_by_sigterm():
            shards.start()
            shards.watch()
    except KeyboardInterrupt:
        shards.tell("stops all shards")
    finally:
        shards.stop()
    return Exit.DONE


def _cluster_id(files: Files, settings: Settings, arguments: Namespace) -> str | None:
    """Return the id of the cluster that the data belong to; None for a new cluster. Raise
    ConfigError if shards with data would not be started, or if the directory has the data of a node
    without shards."""
    directories = places_of(settings).all
    for directory in directories:
        names = files.list(directory) if files.exists(directory) else []
        if "meta.properties" in names:
            raise ConfigError(
                "the directory has the data of a node without shards; give shards another one",
                directory=directory,
            )
        known = [each.removeprefix(FOLDER) for each in names if each.startswith(FOLDER)]
        left = sorted(int(each) for each in known if each.isdigit())
        if left and left[-1] >= arguments.shards:
            raise ConfigError(
                f"there are data of shard {left[-1]}: start as many shards as before; "
                "`moldau broker decommission` takes a broker out of the cluster, then its folder "
                "can be removed",
                directory=shard_folder(directory, left[-1]),
                shards=arguments.shards,
            )
    arguments.shard = 0
    first = settings.overlaid(shard_settings(arguments, settings))
    found = known_cluster(files, places_of(first)) or arguments.cluster_id
    if found is None and not is_standalone(arguments, settings):
        raise ConfigError("shards of a larger cluster need its id: give it with --cluster-id")
    return found


def shard_words(arguments: Namespace, cluster_id: str) -> list[str]:
    """Return the arguments of the command that starts a shard, without its number."""
    words = ["broker", "start", "--shards", str(arguments.shards), "--cluster-id", cluster_id]
    for option in _PASSED_VALUES:
        value = getattr(arguments, option)
        if value is not None:
            words += [f"--{option.replace('_', '-')}", value]
    for each in arguments.assignments:
        words += ["--set", each]
    for option in _PASSED_FLAGS:
        if getattr(arguments, option):
            words.append(f"--{option.replace('_', '-')}")
    return words


class Shards:
    """The processes of the shards."""

    def __init__(self, words: Sequence[str], count: int, context: Context) -> None:
        self._words = words
        self._numbers = range(count)
        self._context = context
        self._running: dict[int, NodeProcess] = {}

    def start(self) -> None:
        """Start all shards, and print a line for each. Raise ShardFailed if one does not start."""
        for number in self._numbers:
            self._launch(number)
        for number in self._numbers:
            self._await_up(number)
        self.tell("Ctrl-C stops all.")

    def _launch(self, number: int) -> None:
        words = [*self._words, "--shard", str(number)]
        self._running[number] = NodeProcess(words, None, is_leashed=True)

    def _await_up(self, number: int) -> None:
        process = self._running[number]
        line = process.line(START_SECONDS)
        if line is None or _UP not in line:
            code = process.wait(EXIT_SECONDS)
            why = "did not come up in time" if code is None else f"ended with code {code}"
            raise ShardFailed(f"shard {number} {why}; the lines above say why")
        told = dict(self._fact(process.line(EXIT_SECONDS)) for _ in range(2))
        self.tell(
            f"shard {number} is up at {told.get('bootstrap', '?')}, data {told.get('data', '?')}"
        )

    @staticmethod
    def _fact(line: str | None) -> tuple[str, str]:
        name, _, value = (line or "").strip().partition(" ")
        return name, value.strip()

    def watch(self) -> None:
        """Restart each shard that ends by itself. Only an exception ends this."""
        while True:
            pause_s(LOOK_SECONDS)
            for number, process in list(self._running.items()):
                code = process.exit_code
                if code is None:
                    continue
                process.wait(0)
                self.tell(f"shard {number} ended with code {code}; it is started again")
                pause_s(RESTART_SECONDS)
                self._launch(number)
                try:
                    self._await_up(number)
                except ShardFailed as error:
                    self.tell(str(error))

    def stop(self) -> None:
        """Stop all shards; shard 0 last."""
        others = [self._running[each] for each in self._running if each]
        self._end(others)
        self._end([self._running[each] for each in self._running if not each])
        self._running.clear()

    @staticmethod
    def _end(processes: Sequence[NodeProcess]) -> None:
        for process in processes:
            if process.exit_code is None:
                process.terminate()
        for process in processes:
            if process.wait(STOP_SECONDS) is None:
                process.kill()
                process.wait(STOP_SECONDS)

    def tell(self, text: str) -> None:
        """Print a line for the user."""
        self._context.out.write(f"{text}\n")
        self._context.out.flush()
