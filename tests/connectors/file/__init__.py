"""Tests of the file connectors."""
