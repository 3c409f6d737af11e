"""Tests of moldau.broker.coordinator."""
