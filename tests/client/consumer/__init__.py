"""Tests of `moldau.client.consumer.consumer`."""
