"""Every pair of choices of connectors meets: modes, converters, faults."""
