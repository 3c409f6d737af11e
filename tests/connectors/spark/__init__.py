"""Spark as a connector."""
