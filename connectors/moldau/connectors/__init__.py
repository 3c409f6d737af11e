"""The connectors that moldau brings: files, JDBC and Spark."""
