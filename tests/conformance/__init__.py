"""Clients and tools that nobody here wrote, as real processes against a real `moldau broker start`.

`broker` starts ours, `peers/` the other side: each client is a small program that takes jobs as
lines of JSON (`program`), so that one test runs with every client. `records` are what they send.
"""
