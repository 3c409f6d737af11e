"""Listeners and connections, on real sockets and in the simulator."""
