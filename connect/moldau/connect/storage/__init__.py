"""What a worker keeps: configs, offsets and statuses, each a fold over a log of keys and values.

A log is a compacted topic (distributed), a file, or memory (standalone): see `log`. Keys and values
are Kafka Connect's own, so that its worker reads the topics that this one wrote, and the reverse.
"""
