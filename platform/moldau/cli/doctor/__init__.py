"""What this machine or a cluster lacks: facts in, findings with cures out. Pure.

`moldau.runtime.machine` and `moldau.runtime.file_systems` gather facts; `machine`, `directories`
and `installed` judge them. `cluster` asks a cluster and judges what it saw. Layers add findings by
the plugin group `moldau.doctor`: a function of the environment that returns findings.
"""
