"""Converters of headers: `simple` guesses types from texts; the others are those of values."""
