"""Tests of moldau.broker.controller."""
