"""Interactive queries: what can be asked of a store, and how the question gets to it.

A question is plain data (`questions`). `answers` reads it from a store, in the test driver, in a
worker, and behind the HTTP API alike.
"""
