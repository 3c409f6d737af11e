"""Decisions, and the runtime that carries them out, for the coordinators and the controller.

A decision is a function of state, request and time that returns an `Outcome`. The `DecisionRuntime`
appends its records to a `DecisionLog`, replays them, and keeps its answers as `ParkedOutcome` until
the records are committed.
"""
