"""The judges of linearizability beside Porcupine, a checker of the same property in Go (`make porcupine`)."""
