"""Kafka's client APIs as exchanges with the machine, sans-IO; one module for each family of APIs.

`session` decodes the requests of a connection and runs the exchanges; `apis` lists the APIs and versions that are served.
`server.runtime`, `highwater` and `bench` import this folder.
"""
