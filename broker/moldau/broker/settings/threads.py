"""Limit changes of thread numbers while a broker runs: at most to half or to double, as in Kafka.

The effective numbers before and after a change are compared: a value for all brokers has no effect
on a broker with its own value, and deleting a value is a change to the next one in precedence.
`num.network.threads` applies to each listener of clients, which may have its own value.

There are no such thread pools here. The rule is kept because tools and operators know it, and
because a node may be returned to Kafka, which does not check stored values again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from moldau.broker.settings.cleaner import log_cleaner_threads
from moldau.broker.settings.listener import read_listeners
from moldau.broker.settings.log import num_recovery_threads_per_data_dir
from moldau.broker.settings.network import num_io_threads, num_network_threads
from moldau.broker.settings.node import background_threads
from moldau.broker.settings.of_listener import own_prefix
from moldau.broker.settings.replication import num_replica_fetchers
from moldau.broker.settings.resource import is_usable
from moldau.broker.settings.tiered import (
    remote_log_manager_copier_thread_pool_size,
    remote_log_manager_expiration_thread_pool_size,
    remote_log_manager_follower_thread_pool_size,
    remote_log_reader_threads,
)
from moldau.config import GivenValue, Setting, Settings, Source, SourceKind
from moldau.config.kinds import trim

Dynamic: TypeAlias = "tuple[Mapping[str, str], Mapping[str, str]]"
"""The dynamic settings of all brokers, and those of one broker."""

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
    """Return the reasons why dynamic settings cannot change in this way. `settings` are the
    broker's, of which the values at its start count. Other checks reject values that are not valid
    numbers."""
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
    """Yield each thread number: its name, the name that takes precedence over it, and its row."""
    for row in _POOLS:
        yield row.name, row.name, row
    for listener in read_listeners(settings).of_broker:
        own_name = f"{own_prefix(listener.name)}{num_network_threads.name}"
        name = f"{num_network_threads.name} of listener {listener.name}"
        yield name, own_name, num_network_threads


def in_force(settings: Settings, dynamic: Dynamic, own_name: str, row: Setting[int]) -> int:
    """Return the effective value: one broker's, else all brokers', else the value at the start."""
    of_all, of_one = dynamic
    for name in dict.fromkeys((own_name, row.name)):
        given = [
            GivenValue(name, values[name], _NO_PLACE)
            for values in (of_one, of_all)
            if name in values
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
