"""Logins at brokers and of clients: SASL and its mechanisms, Kerberos, and OAuth's tokens from a
function, a provider's endpoint or the keys of AWS."""
