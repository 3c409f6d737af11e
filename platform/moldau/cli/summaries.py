"""One line for each command in `moldau help`, which so imports none of their modules."""

from __future__ import annotations

from typing import Final

SUMMARIES: Final = {
    "acl": "Access rules (ACLs): list, add, remove, explain, suggest.",
    "apply": "Make topics, users, rules, quotas, schemas and connectors as in YAML files.",
    "backup": "Store a cluster in a bucket or a folder: topics, records, groups, rules, quotas.",
    "cluster": "The cluster: up, check, roll, balance, describe, features, top, quorum, ...",
    "completion": "The script that lets bash, zsh or fish complete commands, topics and groups.",
    "config": "Settings of topics, brokers and groups: describe, set, unset.",
    "console": "Show a cluster in the browser: topics, messages, groups. Any Kafka will do.",
    "consume": "Read records, from the beginning to the end unless told otherwise.",
    "doctor": "What this machine or a cluster lacks, with cures: limits, disk, clock, libraries.",
    "export": "Write topics, users, rules, quotas, schemas and connectors as YAML for apply.",
    "group": "Groups: list, describe (lag, live too), reset, delete, move.",
    "leader": "Leaders of partitions: elect.",
    "new": "Make a small project that runs and has a test: a stream, a connector, a pipeline.",
    "offsets": "Where logs begin and end, and the offset of a time.",
    "plugins": "What is installed: layers, plugins, and what is wrong with them.",
    "produce": "Send records: lines of the input, or --count of them made up.",
    "profile": "Profiles: clusters by name, with their settings, registry and Connect.",
    "quorum": "The controllers that keep the metadata: status, add, remove.",
    "quota": "Quotas of users and client ids: list, set, remove.",
    "reassign": "Move partitions to other brokers: plan, execute, verify, cancel, list.",
    "registry": "A Schema Registry with Confluent's REST API, on any Kafka cluster.",
    "restore": "Bring a backup back into an empty cluster, with all offsets; or as of a time.",
    "schema": "Schemas of a registry: list, get, put, check, diff, delete.",
    "share": "Share groups (queues): list, describe, offsets, reset, init, peek, dlq, delete.",
    "sizing": "How many nodes, shards, memory and disk a load needs, from measured costs.",
    "token": "Delegation tokens of a cluster: create, list, renew, expire.",
    "top": "A cluster as it changes: rates, lag, replicas behind, open transactions.",
    "topic": "Topics: list, describe, create, delete, alter, trim.",
    "txn": "Transactions: list, describe, hanging, abort.",
    "user": "The SCRAM users of a cluster: list, add, password, remove.",
    "version": (
        "Versions of moldau's layers and of Python, and the record kernel: compiled or pure."
    ),
}
