"""The engine: runs a program, which is a part of the plan, on one partition."""
