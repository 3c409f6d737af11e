"""Tests of moldau.broker.decision."""
