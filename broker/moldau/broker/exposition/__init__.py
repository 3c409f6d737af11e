"""The metrics and the health of a node over HTTP: `/metrics`, `/healthz`, `/readyz`.

`table` has a row for each series that boards and alerts of others read; `page` gathers their lines,
`cluster`, `partitions`, `groups`, `process` and `quorum` fill it, `application` serves it.
"""
