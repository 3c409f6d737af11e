"""Structured logs: formats, levels, and what must never be printed."""
