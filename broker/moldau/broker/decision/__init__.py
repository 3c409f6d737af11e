"""What the coordinators and the controller share: the result of a decision, and answers that wait.

A decision is a function of state, request and time that returns an `Outcome`. A shell appends its
records, replays them, and keeps its answers as `Parked` until the records are committed.
"""
