"""Tests of `moldau.client.admin.admin`."""
