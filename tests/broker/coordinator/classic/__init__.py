"""Tests of moldau.broker.coordinator.group.classic."""
