"""The engine: it runs a program, a part of the plan, on one partition."""
