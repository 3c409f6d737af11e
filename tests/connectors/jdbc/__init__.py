"""Tests of the JDBC connectors, on every database that is here."""
