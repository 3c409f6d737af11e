"""Generates straight-line functions for one version of a message from its spec.

`python -m moldau.protocol.codegen FetchRequest 12` prints what is generated.
"""
