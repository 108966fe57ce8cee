"""Records a producer and two members of a consumer group: python record.py BROKERS TOPIC SECONDS >history.jsonl

The topic has two partitions. The group reads on until it has read all that was acknowledged, at most a minute more.
"""

import json
import sys
import time
from contextlib import suppress
from threading import Lock, Thread

from confluent_kafka import Consumer, KafkaException, Producer

BROKERS, TOPIC, END = sys.argv[1], sys.argv[2], time.monotonic() + float(sys.argv[3])
KEYS = [f"{TOPIC}-0", f"{TOPIC}-1"]
GROUP = {"bootstrap.servers": BROKERS, "group.id": TOPIC, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
acknowledged, read, lock = [-1, -1], [-1, -1], Lock()  # the last offset of each partition


def note(process, kind, f, value, moved=()):
    with lock:  # lines stand in the order of their times
        line = {"process": process, "type": kind, "f": f, "value": value, "time": time.monotonic_ns()}
        print(json.dumps({**line, "rebalance-log": [{"keys": sorted(moved)}]}))


def produce():
    producer = Producer({"bootstrap.servers": BROKERS, "enable.idempotence": True, "delivery.timeout.ms": 3000})
    process, number = 0, 0
    while time.monotonic() < END:
        number, to, answers = number + 1, number % 2, []
        note(process, "invoke", "send", [["send", KEYS[to], number]])
        producer.produce(TOPIC, str(number), partition=to, on_delivery=lambda *answer, to=answers: to.append(answer))
        producer.flush(10)
        if answers and answers[0][0] is None:
            acknowledged[to] = answers[0][1].offset()
            note(process, "ok", "send", [["send", KEYS[to], [acknowledged[to], number]]])
        else:  # nobody knows: it may be in the log, or come there later
            note(process, "info", "send", [["send", KEYS[to], number]])
            process += 10


def consume(process):
    consumer, moved = Consumer(GROUP), set()

    def change(_, partitions):
        moved.update(KEYS[each.partition] for each in partitions)

    note(process, "invoke", "subscribe", KEYS)
    consumer.subscribe([TOPIC], on_assign=change, on_revoke=change)
    note(process, "ok", "subscribe", KEYS)
    while time.monotonic() < END or (any(map(int.__gt__, acknowledged, read)) and time.monotonic() < END + 60):
        note(process, "invoke", "poll", [["poll"]])
        polled = {}
        for message in consumer.consume(100, 0.2):
            if message.error() is None:
                partition, offset = message.partition(), message.offset()
                polled.setdefault(KEYS[partition], []).append([offset, int(message.value())])
                read[partition] = max(read[partition], offset)
        note(process, "ok", "poll", [["poll", polled]], moved)
        moved.clear()
        with suppress(KafkaException):  # what is not committed is read again
            consumer.commit(asynchronous=False)
    consumer.close()


print(json.dumps({"manifest": {"system": "Kafka with librdkafka", "model": "kafka"}}))
for thread in (threads := [Thread(target=produce), Thread(target=consume, args=(1,)), Thread(target=consume, args=(2,))]):
    thread.start()
for thread in threads:
    thread.join()
