"""Pipelines: topics, sources, Streams apps and sinks in one file, checked, planned, drawn and run.

    text -> Reading(pipeline, problems) -> Plan(steps)      pure
    shell, cluster                                          processes, brokers, Connect workers

Apps, the broker and the worker are processes that command lines start; nothing of them is imported
here. Secrets are references (`${env:NAME}`) until the process that needs them resolves them.
"""
