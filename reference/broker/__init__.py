"""The broker: its registration, its local replicas, the commands it obeys, its log directories. Of this package only
`node` imports it; the harness reads its state."""
