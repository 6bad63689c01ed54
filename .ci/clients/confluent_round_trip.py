"""confluent-kafka-python (librdkafka) against a server: administration, idempotent produce, a group of
two that rebalances, resume from committed offsets. Usage: confluent_round_trip.py BOOTSTRAP"""

import sys
import time

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = sys.argv[1]
TOPIC, GROUP, RECORDS = "confluent", "confluent-group", 5000


def consumer():
    return Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )


def poll_until(consumers, want, seen, seconds=60):
    deadline = time.monotonic() + seconds
    while len({key for _, _, key, _ in seen}) < want:  # a rebalance may deliver some twice
        assert time.monotonic() < deadline, f"only {len(seen)} of {want} records came"
        for c in consumers:
            message = c.poll(0.05)
            if message is None:
                continue
            assert message.error() is None, message.error()
            seen.append((message.partition(), message.offset(), message.key(), message.value()))


def main():
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    for future in admin.create_topics([NewTopic(TOPIC, num_partitions=4, replication_factor=1)]).values():
        future.result(20)

    failed = []
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "compression.type": "lz4"})
    for i in range(RECORDS):
        producer.produce(TOPIC, key=f"k{i}", value=f"v{i}", on_delivery=lambda e, _: e and failed.append(e))
        producer.poll(0)
    assert producer.flush(60) == 0 and not failed, failed

    seen = []
    first, second = consumer(), consumer()
    first.subscribe([TOPIC])
    poll_until([first], 500, seen)
    first.commit(asynchronous=False)
    second.subscribe([TOPIC])  # the group rebalances; both go on from what was committed
    poll_until([first, second], RECORDS, seen)
    for c in (first, second):
        if c.assignment():
            c.commit(asynchronous=False)
        c.close()
    assert {key for _, _, key, _ in seen} == {f"k{i}".encode() for i in range(RECORDS)}

    producer.produce(TOPIC, key="last", value="last")
    assert producer.flush(60) == 0
    resumed = consumer()
    resumed.subscribe([TOPIC])
    tail = []
    poll_until([resumed], 1, tail)
    assert tail[-1][2] == b"last", f"resumed at {tail[0]}, want only the record written since"
    resumed.close()

    listed = {g.group_id for g in admin.list_consumer_groups().result(20).valid}
    assert GROUP in listed, listed
    print(f"confluent-kafka-python: {RECORDS} records, group of two, resumed")


main()
