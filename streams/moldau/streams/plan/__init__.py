"""The plan: an app as plain data. Engines read only this."""
