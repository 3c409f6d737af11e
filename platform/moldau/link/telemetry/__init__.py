"""Metrics and traces, pushed to an OTLP receiver."""
