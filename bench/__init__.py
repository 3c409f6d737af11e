"""Benchmarks, each beside its peer: `python -m bench [AREA...] [--rounds N] [--write]`.

A module of this package is an area when it has `tables() -> Sequence[Table]`; `harness` measures
what it brings, `results/` keeps the tables that were committed with their machine and command.
"""
