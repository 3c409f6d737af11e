"""Tests of `moldau.client.settings.rows`."""
