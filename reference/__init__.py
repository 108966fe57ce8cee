"""The replication protocol of Kafka as state machines without IO, built from the five documents.

    types errors config sealed   ids, error codes, protocol variants, record batches
    messages events effects      messages between nodes; inputs of a machine; its outputs
    machine node performing      the base of a machine; broker and controller in one node; how effects are performed
    coordination/                ZooKeeper: requests, paths, and a model of the server
    log/ replica/ broker/        one log; one replica as leader or follower; the broker that holds them
    controller/                  the one broker that elects leaders, moves partitions and deletes topics
    client/                      producers, consumers and administrators

It imports no other package of this project, no clock, no random numbers and no IO. Only `server`, `bench` and `highwater` import
it: checkers must not know the implementation that they judge.
"""
