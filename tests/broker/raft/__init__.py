"""Tests of moldau.broker.raft."""
