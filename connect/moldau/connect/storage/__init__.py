"""A worker's stored state: configs, offsets and statuses, each a fold over a log of keys and
values.

A log is a compacted topic (distributed), a file, or memory (standalone): see `log`. Keys and values
are those of Kafka Connect, so that its workers can read the topics that this one wrote, and the
reverse.
"""
