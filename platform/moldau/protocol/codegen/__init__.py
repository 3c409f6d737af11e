"""From a message's spec to straight-line functions for one version.

`python -m moldau.protocol.codegen FetchRequest 12` prints what is generated.
"""
