"""Jepsen's view of a queue like Kafka: sends and polls of processes, judged by what clients saw and nothing else."""
