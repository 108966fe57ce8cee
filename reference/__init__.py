"""The replication protocol of Kafka as state machines without IO, built from the five documents.

    types errors config sealed   ids, error codes, protocol variants, record batches
    messages events effects      what machines send, what they are told, what they ask for
    machine node performing      the base of a machine; broker and controller in one node; how effects are performed
    coordination/                ZooKeeper: requests, paths, and a model of the server
    log/ replica/ broker/        one log; one replica as leader or follower; the broker that holds them
    controller/                  the one broker that elects leaders, moves partitions and deletes topics
    client/                      producers, consumers and administrators

Imports nothing of ours, no clock, no chance and no IO. Imported by `server` and `highwater` alone: judges must not know it.
"""
