"""Tests of `moldau.client.producer.producer`."""
