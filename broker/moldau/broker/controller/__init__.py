"""The controller: the cluster's metadata as a fold of `__cluster_metadata`.

- the fold       `Image`, `Image.replay`, `Image.records`; a module for each family of records
- the decisions  `Controller.on_request`, `Controller.on_tick`; a module for each kind of request
- the log        `encode_records`, `decode_records`, `snapshot_batches`
- a new cluster  `bootstrap_records`, `birth_records`
"""
