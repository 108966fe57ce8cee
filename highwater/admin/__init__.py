"""Administration tools: KIP-236's partition reassignment and `kafka-topics --describe`."""
