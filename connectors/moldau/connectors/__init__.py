"""The connectors that moldau includes: files, JDBC and Spark."""
