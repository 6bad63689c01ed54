"""Adapter of confluent-kafka-python (librdkafka)."""

import sys

import confluent_kafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from adapter import Lacks, decode, headers_of, record, serve

TIMEOUT = 20


class Adapter:
    def __init__(self, bootstrap):
        self.base = {"bootstrap.servers": bootstrap}
        self.admin_client = None
        self.held, self.events = {}, {}

    def hello(self):
        return {"version": f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"}

    ## Producers

    def producer(self, id, codec, idempotent=False, transactional_id=None):
        config = {**self.base, "compression.type": codec, "message.max.bytes": 2_000_000, "linger.ms": 5}
        if idempotent:
            config["enable.idempotence"] = True
        if transactional_id:
            config["transactional.id"] = transactional_id
        self.held[id] = Producer(config)

    def send(self, id, topic, partition, records):
        p, failed = self.held[id], []

        def done(error, _):
            if error:
                failed.append(error)

        for r in records:
            extra = {"timestamp": r["t"]} if r["t"] is not None else {}
            p.produce(
                topic, decode(r["v"]), decode(r["k"]), partition, headers=headers_of(r), on_delivery=done, **extra
            )
            p.poll(0)
        left = p.flush(TIMEOUT)
        if failed or left:
            raise RuntimeError(f"{failed[0] if failed else 'time-out'} ({len(failed)} refused, {left} not sent)")

    def init(self, id):
        self.held[id].init_transactions(TIMEOUT)

    def begin_transaction(self, id):
        self.held[id].begin_transaction()

    def commit_transaction(self, id):
        self.held[id].commit_transaction(TIMEOUT)

    def abort_transaction(self, id):
        self.held[id].abort_transaction(TIMEOUT)

    def send_offsets(self, id, consumer, group, topic, offsets):
        positions = [TopicPartition(topic, int(p), o) for p, o in offsets.items()]
        self.held[id].send_offsets_to_transaction(positions, self.held[consumer].consumer_group_metadata(), TIMEOUT)

    ## Consumers

    def config(self, committed):
        isolation = "read_committed" if committed else "read_uncommitted"
        return {**self.base, "isolation.level": isolation, "enable.auto.commit": False, "auto.offset.reset": "earliest"}

    def consumer(
        self, id, group, topic, instance=None, assignor=None, protocol=None, committed=False, session_ms=6000, max_poll=0
    ):
        config = {**self.config(committed), "group.id": group}
        if protocol:
            config["group.protocol"] = protocol
        else:
            config |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 500}
            config["partition.assignment.strategy"] = assignor or "range"
        if instance:
            config["group.instance.id"] = instance
        events = self.events[id] = []

        def seen(kind):
            return lambda _, partitions: events.append([kind, [p.partition for p in partitions]])

        c = self.held[id] = Consumer(config)
        c.subscribe([topic], on_assign=seen("assigned"), on_revoke=seen("revoked"), on_lost=seen("lost"))

    def assign(self, id, topic, partitions, committed):
        c = self.held[id] = Consumer({**self.config(committed), "group.id": "not-used"})
        c.assign([TopicPartition(topic, p, confluent_kafka.OFFSET_BEGINNING) for p in partitions])

    def poll(self, id, ms):
        c, records = self.held[id], []
        for m in c.consume(500, ms / 1000):
            if m.error():
                raise RuntimeError(m.error())
            records.append(
                record(m.key(), m.value(), m.headers(), m.timestamp()[1], m.partition(), m.offset())
            )
        events = self.events.setdefault(id, [])
        told = {"records": records, "assignment": [p.partition for p in c.assignment()], "events": list(events)}
        events.clear()
        return told

    def commit(self, id):
        self.held[id].commit(asynchronous=False)

    def seek(self, id, topic, partition, to):
        offset = {"begin": confluent_kafka.OFFSET_BEGINNING, "end": confluent_kafka.OFFSET_END}.get(to, to)
        self.held[id].seek(TopicPartition(topic, partition, offset))

    def offset_for_time(self, id, topic, partition, time):
        return {"offset": self.held[id].offsets_for_times([TopicPartition(topic, partition, time)], TIMEOUT)[0].offset}

    def bounds(self, id, topic, partition):
        begin, end = self.held[id].get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT)
        return {"begin": begin, "end": end}

    def close(self, id):
        held = self.held.pop(id)
        held.close() if isinstance(held, Consumer) else held.flush(TIMEOUT)

    ## Administration

    @property
    def admin(self):
        if not self.admin_client:
            self.admin_client = AdminClient(self.base)
        return self.admin_client

    def create_topic(self, topic, count, configs):
        self.admin.create_topics([NewTopic(topic, count, 1, config=configs)])[topic].result(TIMEOUT)

    def delete_topic(self, topic):
        self.admin.delete_topics([topic])[topic].result(TIMEOUT)

    def list_topics(self):
        return {"topics": list(self.admin.list_topics(timeout=TIMEOUT).topics)}

    def describe_topic(self, topic):
        described = self.admin.describe_topics(confluent_kafka.TopicCollection([topic]))[topic].result(TIMEOUT)
        return {"partitions": len(described.partitions)}

    def add_partitions(self, topic, count):
        self.admin.create_partitions([NewPartitions(topic, count)])[topic].result(TIMEOUT)

    def get_config(self, topic, name):
        resource = ConfigResource(ResourceType.TOPIC, topic)
        return {"value": self.admin.describe_configs([resource])[resource].result(TIMEOUT)[name].value}

    def set_config(self, topic, name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(TIMEOUT)

    def list_groups(self):
        return {"groups": [g.group_id for g in self.admin.list_consumer_groups().result(TIMEOUT).valid]}

    def describe_group(self, group):
        described = self.admin.describe_consumer_groups([group])[group].result(TIMEOUT)
        return {"state": described.state.name, "members": len(described.members)}

    def delete_group(self, group):
        self.admin.delete_consumer_groups([group])[group].result(TIMEOUT)

    def set_group_offsets(self, group, topic, offsets):
        positions = [TopicPartition(topic, int(p), o) for p, o in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, positions)]
        self.admin.alter_consumer_group_offsets(request)[group].result(TIMEOUT)

    def group_offsets(self, group, topic, partitions):
        request = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, p) for p in partitions])]
        answer = self.admin.list_consumer_group_offsets(request)[group].result(TIMEOUT)
        return {"offsets": {str(p.partition): p.offset for p in answer.topic_partitions}}

    def delete_group_offsets(self, group, topic, partitions):
        raise Lacks("")

    def delete_records(self, topic, partition, before):
        request = TopicPartition(topic, partition, before)
        self.admin.delete_records([request])[request].result(TIMEOUT)


serve(Adapter(sys.argv[1]))
