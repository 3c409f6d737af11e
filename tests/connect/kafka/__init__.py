"""Kafka Connect's own transforms, predicates and converters, asked the same as ours."""
