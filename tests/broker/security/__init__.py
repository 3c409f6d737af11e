"""Names of certificates and logins: the cores, on given bytes."""
