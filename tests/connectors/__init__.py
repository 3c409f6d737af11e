"""Tests of the connectors that moldau brings."""
