"""Apache Kafka as a system under test: its releases, jars, settings, processes, and what its logs say."""
