"""Tests of moldau.streams."""
