"""Whole clusters of brokers in one simulated world."""
