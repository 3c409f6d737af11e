"""Converters of headers: `simple` infers types from texts; the others are those of values."""
