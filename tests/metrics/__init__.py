"""Metrics: what is counted, and how Prometheus and OTLP get it."""
