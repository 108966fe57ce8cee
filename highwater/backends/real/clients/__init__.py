"""Clients of a run on real brokers: one worker for each, with librdkafka for Kafka and a ZooKeeper session for admin requests."""
