"""Converters of keys and values: strings, JSON, bytes, numbers, and those with a schema registry.

Each is found through an entry point, so that importing one does not import the others.
"""
