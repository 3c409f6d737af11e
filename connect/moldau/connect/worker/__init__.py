"""Runs connectors and tasks on this machine: threads for connectors, processes for tasks.

It carries out the decisions of the herder and reports the results; it decides nothing itself.
"""
