"""The broker process: event loop, TCP connections, settings, administration, health check. Protocol decisions are in `reference`.

`highwater` and `bench` start `python -m server.runtime` and import its settings and health check. No other folder of `server`
imports this one.
"""
