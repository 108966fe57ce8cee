"""What an operator asks of a cluster: KIP-236's reassignment tool, and the description of topics."""
