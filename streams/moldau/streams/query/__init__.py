"""Interactive queries: the questions that a store answers, and how they reach the store.

A question is plain data (`questions`). `answers` reads the answer from a store, alike in the test
driver, in a worker, and behind the HTTP API.
"""
