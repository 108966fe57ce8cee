"""Kafka's client APIs without sockets: how each client request becomes messages to the broker machine and a response.

`session` decodes the requests of a connection and runs the exchanges; `apis` lists the APIs and versions that are served.
`server.runtime`, `highwater` and `bench` import this folder.
"""
