"""The HTTP APIs that the console asks: Connect workers, Streams apps and pipelines."""
