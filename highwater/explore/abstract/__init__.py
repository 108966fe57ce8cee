"""Abstract models of Kafka's replication, with the counts that TLC prints: the published formal models, searched by levels."""
