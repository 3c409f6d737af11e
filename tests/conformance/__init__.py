"""Clients and tools that nobody here wrote, as real processes against a real `moldau broker start`.

`broker` starts ours, `peers/` the other side: each client is a small program that takes jobs as
lines of JSON (`program`), so that one test runs with every client. `records` are what they send.

In groups each client is a process of its own (`members`, `member_kinds`) that tells what it owns
and reads; a `group_story` has somebody write all the time, and in the end is held to what the
coordinator wrote (`group_log`).
"""
