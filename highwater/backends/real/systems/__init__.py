"""Systems under test on real processes: the reference, Apache Kafka, and systems that users bring.

port.py       what the backends ask of a system
registry.py   which systems there are, and the one that a plan names
reference.py  the reference implementation (`server/`)
kafka/        Apache Kafka from its jars, with ZooKeeper or KRaft
external.py   a cluster that is already there, handled by the user's own commands
"""
