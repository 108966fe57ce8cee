"""What stock clients ask in Kafka's own APIs, as exchanges with the machine: sans-IO, one module for a family of APIs."""
