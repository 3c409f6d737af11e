"""Numbers of threads that change while a broker runs: by half or by double at most, as Kafka's do.

What counts is what is in force before and after a change, from wherever it comes: a value for all
brokers does nothing where one broker has its own, and to take one away is a change to what lies
under it. `num.network.threads` is in force for each listener of clients, which may have its own.

There are no such pools here. The rule is kept because tools and operators know it, and because a
node may be given back to Kafka, which is not asked again about what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from moldau.broker.settings.cleaner import log_cleaner_threads
from moldau.broker.settings.listener import read_listeners
from moldau.broker.settings.log import num_recovery_threads_per_data_dir
from moldau.broker.settings.network import num_io_threads, num_network_threads
from moldau.broker.settings.node import background_threads
from moldau.broker.settings.replication import num_replica_fetchers
from moldau.broker.settings.resource import is_usable
from moldau.broker.settings.tables import LISTENER_PREFIX
from moldau.broker.settings.tiered import (
    remote_log_manager_copier_thread_pool_size,
    remote_log_manager_expiration_thread_pool_size,
    remote_log_manager_follower_thread_pool_size,
    remote_log_reader_threads,
)
from moldau.config import Given, Setting, Settings, Source, SourceKind
from moldau.config.kinds import trim

Dynamic: TypeAlias = "tuple[Mapping[str, str], Mapping[str, str]]"
"""What is set for all brokers, and for one."""

_POOLS: Final = (
    background_threads,
    log_cleaner_threads,
    num_io_threads,
    num_recovery_threads_per_data_dir,
    num_replica_fetchers,
    remote_log_manager_copier_thread_pool_size,
    remote_log_manager_expiration_thread_pool_size,
    remote_log_manager_follower_thread_pool_size,
    remote_log_reader_threads,
)
_DYNAMIC: Final = frozenset((SourceKind.DYNAMIC_DEFAULT, SourceKind.DYNAMIC_BROKER))
_NO_PLACE: Final = Source(SourceKind.DYNAMIC_BROKER)


def thread_refusals(settings: Settings, before: Dynamic, after: Dynamic) -> tuple[str, ...]:
    """Why dynamic settings cannot change in this way. Of `settings`, the broker's, counts what it
    was started with; values that are no numbers of threads at all are others' to refuse."""
    found = []
    for name, own_name, row in _threads(settings):
        now = in_force(settings, before, own_name, row)
        wanted = in_force(settings, after, own_name, row)
        least, most = max(1, now // 2), now * 2
        if wanted != now and not least <= wanted <= most:
            found.append(
                f"{name}: {wanted} is not allowed now; allowed: {least} to {most}, as it "
                f"is {now} and may be halved or doubled at once"
            )
    return tuple(found)


def _threads(settings: Settings) -> Iterator[tuple[str, str, Setting[int]]]:
    """Each number: its name, the name that wins over it, and its row."""
    for row in _POOLS:
        yield row.name, row.name, row
    for listener in read_listeners(settings).of_broker:
        own_name = f"{LISTENER_PREFIX}{listener.name.lower()}.{num_network_threads.name}"
        name = f"{num_network_threads.name} of listener {listener.name}"
        yield name, own_name, num_network_threads


def in_force(settings: Settings, dynamic: Dynamic, own_name: str, row: Setting[int]) -> int:
    """The value that wins: that of one broker, of all, and then what it was started with."""
    of_all, of_one = dynamic
    for name in dict.fromkeys((own_name, row.name)):
        given = [
            Given(name, values[name], _NO_PLACE) for values in (of_one, of_all) if name in values
        ]
        given += [each for each in settings.given_for(name) if each.source.kind not in _DYNAMIC]
        for each in given:
            if is_usable(row, each):
                return _number(row, str(each.value))
    for synonym in settings.describe(row).synonyms:
        if synonym.source.kind not in _DYNAMIC and synonym.text is not None:
            return _number(row, synonym.text)
    raise AssertionError(f"{row.name} has a default")


def _number(row: Setting[int], text: str) -> int:
    number: int = row.kind.read(trim(text))
    return number
