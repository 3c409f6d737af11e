"""The identity of a client: names in certificates, and logins by SASL. Pure cores.

The modules: `distinguished_name` reads the name of a certificate, `mapping` makes a principal's
name of it; `login` is the login of a connection, by one of the mechanisms `plain`, `scram` and
`oauth`.
"""
