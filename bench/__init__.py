"""Benchmarks of moldau beside its peers: `python -m bench [AREA...] [--rounds N] [--write]`.

A module of this package is an area if it has `tables() -> Sequence[Table]`. `harness` measures the
tables; `results/` keeps those that were committed, with their machine and command.
"""
