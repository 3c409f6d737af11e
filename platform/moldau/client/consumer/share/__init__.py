"""The share consumer (KIP-932): reads topics as queues, record by record, beside other consumers.

Cores: `member` keeps the membership, `session` has the requests to one broker and what is held of
it, `window` says how much to hold. Shells: `reader` runs them, `consumer` is what users call.
"""
