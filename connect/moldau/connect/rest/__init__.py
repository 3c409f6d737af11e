"""Kafka Connect's REST API, and moldau's additions under `/v1`."""
