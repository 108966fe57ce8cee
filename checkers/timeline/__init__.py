"""What rows say of a partition over time: logs of replicas, the ISR in ZooKeeper, destroyed bytes, moves."""
