"""Kafka Connect's REST API, and what of ours goes beyond it under `/v1`."""
