"""Moving partitions to other brokers (V3 §F, KIP-236). Part of `reference.controller`."""
