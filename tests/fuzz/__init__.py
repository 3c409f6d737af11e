"""Every decoder on bad input: it refuses with the right error, in bounded time and memory.

`python -m tests.fuzz [TARGET...] --seconds N` looks for inputs that break this, guided by coverage
where atheris is installed and at random elsewhere. `corpus/` keeps seeds made from valid encodings
(`--renew` makes them again) and every input that ever broke something; pytest replays all of it.
"""
