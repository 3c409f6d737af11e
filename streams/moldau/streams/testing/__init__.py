"""Run an app without a broker, in virtual time."""
