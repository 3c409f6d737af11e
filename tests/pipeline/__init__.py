"""Pipelines in one file."""
