"""`moldau apply`: documents of what a cluster shall have, compared with it, planned and done.

`sections` and `documents` read the files. A part for each section (`topics`, `users`, ...) reads
the cluster, plans with a pure function, and does a step. `exporting` writes a document.
"""
