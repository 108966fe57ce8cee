"""Records a group that reads and writes in transactions: python transactions.py BROKERS TOPIC SECONDS >history.jsonl

Each transaction of its three members polls the topic's two partitions, sends one record to one of them, and commits the
positions of the group with it. At the end the group reads on until it has read all that was committed, at most a minute more.
"""

import json
import sys
import time
from itertools import count
from threading import Lock, Thread

from confluent_kafka import Consumer, KafkaException, Producer

BROKERS, TOPIC, END = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])
KEYS = [f"{TOPIC}-0", f"{TOPIC}-1"]
GROUP = {"bootstrap.servers": BROKERS, "group.id": TOPIC, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
numbers, processes, lock = count(), count(), Lock()
committed, read = [-1, -1], [-1, -1]  # the last offset of each partition


def note(process, kind, f, value, moved=()):
    with lock:  # lines stand in the order of their times
        line = {"process": process, "type": kind, "f": f, "value": value, "time": time.monotonic_ns()}
        print(json.dumps({**line, "rebalance-log": [{"keys": sorted(moved)}]}))


def take(consumer):
    polled = {}
    for message in consumer.consume(10, 0.2):
        if message.error() is None:
            partition, offset = message.partition(), message.offset()
            polled.setdefault(KEYS[partition], []).append([offset, int(message.value())])
            read[partition] = max(read[partition], offset)
    return polled


def transact(process, consumer, producer, moved):
    number, answers, polled = next(numbers), [], {}
    to, key = number % 2, KEYS[number % 2]
    note(process, "invoke", "txn", [["poll"], ["send", key, number]])
    try:
        producer.begin_transaction()
        polled = take(consumer)
        producer.produce(TOPIC, str(number), partition=to, on_delivery=lambda *answer: answers.append(answer))
        if polled:
            producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
        producer.commit_transaction(5)
    except KafkaException as error:  # these clients end; others begin where the group was
        certain = error.args[0].txn_requires_abort()
        if certain:
            producer.abort_transaction(5)
        note(process, "fail" if certain else "info", "txn", [["poll", polled], ["send", key, number]], moved)
        raise
    offset = answers[0][1].offset()
    note(process, "ok", "txn", [["poll", polled], ["send", key, [offset, number]]], moved)
    committed[to] = max(committed[to], offset)
    moved.clear()


def work(name):
    while time.monotonic() < END or (any(map(int.__gt__, committed, read)) and time.monotonic() < END + 60):
        process, moved = next(processes), set()
        producer = Producer({"bootstrap.servers": BROKERS, "transactional.id": name, "transaction.timeout.ms": 8000})
        consumer = Consumer({**GROUP, "isolation.level": "read_committed"})

        def change(_, partitions, moved=moved):
            moved.update(KEYS[each.partition] for each in partitions)

        try:
            producer.init_transactions(10)
            note(process, "invoke", "subscribe", KEYS)
            consumer.subscribe([TOPIC], on_assign=change, on_revoke=change)
            note(process, "ok", "subscribe", KEYS)
            while time.monotonic() < END:
                transact(process, consumer, producer, moved)
            while any(map(int.__gt__, committed, read)) and time.monotonic() < END + 60:
                note(process, "invoke", "poll", [["poll"]])
                note(process, "ok", "poll", [["poll", take(consumer)]], moved)
        except KafkaException as error:
            print(error, file=sys.stderr)
        consumer.close()


print(json.dumps({"manifest": {"system": "Kafka with librdkafka", "model": "kafka"}}))
for thread in (threads := [Thread(target=work, args=(f"{TOPIC}-{name}",)) for name in "abc"]):
    thread.start()
for thread in threads:
    thread.join()
