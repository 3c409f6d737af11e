"""Check, plan, draw and run a pipeline: topics, sources, Streams apps and sinks in one file.

    text -> PipelineFile(pipeline, problems) -> Plan(steps)      `reading`, `plan`: no effects
    processes, brokers and Connect workers                  `running`, `cluster`, `worker`

Apps, the broker and the worker are processes of their own, started by command lines. Their code is
not imported here. A secret stays a reference (`${env:NAME}`) until the process that needs it
resolves it.
"""
