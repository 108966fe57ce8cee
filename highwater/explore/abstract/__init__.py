"""Abstract models of Kafka's replication, searched by whole levels: the published formal models, with the counts that TLC prints."""
