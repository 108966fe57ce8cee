"""The broker: its registration, its local replicas, the controller's commands that it obeys, its log directories."""
