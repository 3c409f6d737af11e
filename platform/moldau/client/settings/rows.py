"""The settings of the clients, by Kafka's names: one row each, in one table a kind of client.

Only what works is listed, so an unknown name is refused with the nearest known one instead of being
ignored. Values come from files, mappings and the command line alike (`moldau.config`); Python code
writes them as keywords, `batch_size=65536` for `batch.size`.

Invariant: what a client does without settings is what Kafka's own clients of 4.3 do, but for what
costs nothing and saves work: see `batch.waiting.size`.
"""

from __future__ import annotations

from typing import Final

from moldau.client.settings import group as group_rows
from moldau.client.settings import producer as producer_rows
from moldau.client.settings import serdes as serde_rows
from moldau.client.settings.consumer import CONSUMER_ROWS
from moldau.client.settings.every_client import (
    RECORD_ROWS,
    WITHOUT_CONTROLLERS,
    WITHOUT_MEANING_TO_ADMINS,
    WITHOUT_MEANING_TO_CONSUMERS,
)
from moldau.client.settings.share import SHARE_ROWS
from moldau.config import SettingTable
from moldau.link.security import security_fault
from moldau.link.settings import CONNECTION_ROWS, OPEN_PREFIXES, hosts_have_names, nothing_unbuilt

_LINK_RULES: Final = (hosts_have_names, nothing_unbuilt, security_fault)
ADMIN_SETTINGS: Final = SettingTable(
    CONNECTION_ROWS, open_prefixes=OPEN_PREFIXES, rules=_LINK_RULES
)
GROUP_MEMBER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        group_rows.group_instance_id,
        group_rows.session_timeout_ms,
        group_rows.heartbeat_interval_ms,
        group_rows.rebalance_timeout_ms,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(*_LINK_RULES, group_rows.beats_often_enough),
)
PRODUCER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        *producer_rows.PRODUCER_ROWS,
        *RECORD_ROWS,
        *serde_rows.SERDE_ROWS,
        *serde_rows.SERIALIZER_ROWS,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(
        producer_rows.idempotence_is_possible,
        producer_rows.delivery_outlasts_a_request,
        *_LINK_RULES,
        producer_rows.transactions_are_possible,
        producer_rows.partitioner_is_one,
        serde_rows.credentials_are_whole,
    ),
)
CONSUMER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        *group_rows.GROUP_ROWS,
        *CONSUMER_ROWS,
        *RECORD_ROWS,
        *serde_rows.SERDE_ROWS,
        *serde_rows.DESERIALIZER_ROWS,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(
        group_rows.group_is_whole,
        group_rows.fits_protocol,
        group_rows.beats_often_enough,
        *_LINK_RULES,
        serde_rows.credentials_are_whole,
    ),
)

SHARE_CONSUMER_SETTINGS: Final = SettingTable(
    (
        *CONNECTION_ROWS,
        *SHARE_ROWS,
        *RECORD_ROWS,
        *serde_rows.SERDE_ROWS,
        *serde_rows.DESERIALIZER_ROWS,
    ),
    open_prefixes=OPEN_PREFIXES,
    rules=(*_LINK_RULES, serde_rows.credentials_are_whole),
)


def _names(table: SettingTable) -> frozenset[str]:
    return frozenset(name for row in table for name in (row.name, *row.aliases))


_OF_BOTH: Final = serde_rows.WITHOUT_MEANING.keys()
_OF_PRODUCERS: Final = _names(PRODUCER_SETTINGS) | producer_rows.WITHOUT_MEANING.keys() | _OF_BOTH
_OF_CONSUMERS: Final = _names(CONSUMER_SETTINGS) | WITHOUT_MEANING_TO_CONSUMERS.keys() | _OF_BOTH
# What a file of other clients may have, and the one that reads it has no use for.
OF_PRODUCERS_ALONE: Final = _OF_PRODUCERS - _OF_CONSUMERS
OF_CONSUMERS_ALONE: Final = _OF_CONSUMERS - _OF_PRODUCERS
OF_PRODUCERS_AND_CONSUMERS: Final = (
    (_OF_PRODUCERS | _OF_CONSUMERS) - _names(ADMIN_SETTINGS) - WITHOUT_CONTROLLERS.keys()
)
OF_OTHERS_THAN_MEMBERS: Final = OF_PRODUCERS_AND_CONSUMERS - _names(GROUP_MEMBER_SETTINGS)
OF_OTHERS_THAN_SHARE_CONSUMERS: Final = OF_PRODUCERS_AND_CONSUMERS - _names(SHARE_CONSUMER_SETTINGS)
ALL_TABLES: Final = (
    CONSUMER_SETTINGS,
    PRODUCER_SETTINGS,
    ADMIN_SETTINGS,
    GROUP_MEMBER_SETTINGS,
    SHARE_CONSUMER_SETTINGS,
)
KNOWN_NAMES: Final = frozenset().union(
    *map(_names, ALL_TABLES), _OF_PRODUCERS, _OF_CONSUMERS, WITHOUT_MEANING_TO_ADMINS
)
