"""Clients of a run: one worker per workload process, with librdkafka for Kafka and a ZooKeeper session for administration."""
