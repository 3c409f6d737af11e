"""Topologies of every kind on a real broker, with two partitions."""
