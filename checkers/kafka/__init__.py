"""Jepsen's workload for queues like Kafka: sends and polls of processes, judged by what clients saw and nothing else."""
