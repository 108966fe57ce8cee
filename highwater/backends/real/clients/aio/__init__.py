"""The program of aiokafka's clients.

It runs beside highwater, with aiokafka and the standard library alone (clients/aio_kafka.py).
"""
