"""Kafka's ids and their text."""
