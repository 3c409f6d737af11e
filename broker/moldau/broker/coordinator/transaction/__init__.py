"""The transaction coordinator's core: the transactional ids of one partition of
`__transaction_state`.

`state` has the states and what a transactional id is, `producers` decides about InitProducerId,
`membership` about partitions that join, `ending` about commits, aborts and markers, `listing`
describes. `transactions` is the shard: it keeps the table, and knows the time.
"""
