"""Kafka's wire protocol: messages declared once, codecs written for each version on first use.

`types`, `declare`   how a message is declared; `spec` is what a declaration says, as data.
`messages`           one module an API, found by key through a small index.
`schemas`            record and data schemas: headers, control records, logs of the coordinators.
`codegen`            turns a spec into straight-line Python for one version.
`framing`            sizes and bytes of a connection, `connection` its headers and order; no IO.

Nothing is imported here: a program pays for the messages it touches, not for all 281.
"""
