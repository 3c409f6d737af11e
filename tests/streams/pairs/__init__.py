"""Every pair of choices of an app meets: operators, policies, faults."""
