"""ZooKeeper: its requests and answers as data, the paths and payloads of the znodes, and a model of the server in memory.

Every machine imports it, and so do `server` and `highwater`.
"""
