"""Kafka's wire protocol: messages are declared once; codecs are generated for each version.

`types`, `declare`   how a message is declared; `spec` is the declaration as data.
`messages`           one module for each API, found by key through a small index.
`schemas`            record and data schemas: headers, control records, logs of the coordinators.
`codegen`            turns a spec into straight-line Python for one version, on first use.
`framing`            sizes and bytes of a connection, `connection` its headers and order; no IO.

Nothing is imported here: a program pays for the messages it uses, not for all 281.
"""
