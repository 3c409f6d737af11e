"""Tests of replicas, their leaders, and those who wait for them."""
