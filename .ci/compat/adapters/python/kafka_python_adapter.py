"""Adapter of kafka-python."""

import sys

import kafka
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from adapter import decode, headers_of, record, serve


class Listener(ConsumerRebalanceListener):
    def __init__(self, events):
        self.events = events

    def on_partitions_revoked(self, revoked):
        self.events.append(["revoked", [p.partition for p in revoked]])

    def on_partitions_assigned(self, assigned):
        self.events.append(["assigned", [p.partition for p in assigned]])


class Adapter:
    def __init__(self, bootstrap):
        self.base = {"bootstrap_servers": bootstrap}
        self.admin_client = None
        self.held, self.events = {}, {}

    def hello(self):
        return {"version": kafka.__version__, "lacks": {"kip848": "classic protocol only"}}

    ## Producers

    def producer(self, id, codec, idempotent=False, transactional_id=None):
        config = {**self.base, "compression_type": None if codec == "none" else codec, "max_request_size": 2_000_000}
        if transactional_id:
            config["transactional_id"] = transactional_id
        self.held[id] = KafkaProducer(enable_idempotence=idempotent or bool(transactional_id), linger_ms=5, **config)

    def send(self, id, topic, partition, records):
        sent = [
            self.held[id].send(topic, decode(r["v"]), decode(r["k"]), headers_of(r), partition, r["t"]) for r in records
        ]
        for future in sent:
            future.get(20)

    def init(self, id):
        self.held[id].init_transactions()

    def begin_transaction(self, id):
        self.held[id].begin_transaction()

    def commit_transaction(self, id):
        self.held[id].commit_transaction()

    def abort_transaction(self, id):
        self.held[id].abort_transaction()

    def send_offsets(self, id, consumer, group, topic, offsets):
        positions = {TopicPartition(topic, int(p)): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        self.held[id].send_offsets_to_transaction(positions, self.held[consumer].group_metadata())

    ## Consumers

    def config(self, committed):
        isolation = "read_committed" if committed else "read_uncommitted"
        return {**self.base, "isolation_level": isolation, "enable_auto_commit": False, "auto_offset_reset": "earliest"}

    def consumer(
        self, id, group, topic, instance=None, assignor=None, protocol=None, committed=False, session_ms=6000, max_poll=500
    ):
        strategy = CooperativeStickyAssignor if assignor else RangePartitionAssignor
        c = self.held[id] = KafkaConsumer(
            group_id=group,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=[strategy],
            group_instance_id=instance,
            max_poll_records=max_poll,
            **self.config(committed),
        )
        self.events[id] = []
        c.subscribe([topic], listener=Listener(self.events[id]))

    def assign(self, id, topic, partitions, committed):
        c = self.held[id] = KafkaConsumer(group_id=None, **self.config(committed))
        c.assign([TopicPartition(topic, p) for p in partitions])
        c.seek_to_beginning()

    def poll(self, id, ms):
        c = self.held[id]
        records = [
            record(r.key, r.value, r.headers, r.timestamp, r.partition, r.offset)
            for some in c.poll(timeout_ms=ms).values()
            for r in some
        ]
        events = self.events.setdefault(id, [])
        told = {"records": records, "assignment": [p.partition for p in c.assignment()], "events": list(events)}
        events.clear()
        return told

    def commit(self, id):
        self.held[id].commit()

    def seek(self, id, topic, partition, to):
        c, at = self.held[id], TopicPartition(topic, partition)
        {"begin": c.seek_to_beginning, "end": c.seek_to_end}.get(to, lambda p: c.seek(p, to))(at)

    def offset_for_time(self, id, topic, partition, time):
        at = TopicPartition(topic, partition)
        found = self.held[id].offsets_for_times({at: time})[at]
        return {"offset": found.offset if found else None}

    def bounds(self, id, topic, partition):
        c, at = self.held[id], TopicPartition(topic, partition)
        return {"begin": c.beginning_offsets([at])[at], "end": c.end_offsets([at])[at]}

    def close(self, id):
        self.held.pop(id).close()

    ## Administration

    @property
    def admin(self):
        if not self.admin_client:
            self.admin_client = KafkaAdminClient(**self.base)
        return self.admin_client

    def create_topic(self, topic, count, configs):
        self.admin.create_topics({topic: {"num_partitions": count, "replication_factor": 1, "configs": configs}})

    def delete_topic(self, topic):
        self.admin.delete_topics([topic])

    def list_topics(self):
        return {"topics": self.admin.list_topics()}

    def describe_topic(self, topic):
        return {"partitions": len(self.admin.describe_topics([topic])[0]["partitions"])}

    def add_partitions(self, topic, count):
        self.admin.create_partitions({topic: count})

    def get_config(self, topic, name):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=[name])
        described = self.admin.describe_configs([resource], config_filter="all")
        return {"value": described["topic"][topic][name]["value"]}

    def set_config(self, topic, name, value):
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})])

    def list_groups(self):
        return {"groups": [g["group_id"] for g in self.admin.list_groups()]}

    def describe_group(self, group):
        described = self.admin.describe_groups([group])[group]
        return {"state": described["group_state"], "members": len(described["members"])}

    def delete_group(self, group):
        self.admin.delete_groups([group])

    def set_group_offsets(self, group, topic, offsets):
        positions = {TopicPartition(topic, int(p)): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        for error in self.admin.alter_group_offsets(group, positions).values():
            if error.errno:
                raise error()

    def group_offsets(self, group, topic, partitions):
        got = self.admin.list_group_offsets({group: [TopicPartition(topic, p) for p in partitions]})[group]
        return {"offsets": {str(p.partition): o.offset for p, o in got.items()}}

    def delete_group_offsets(self, group, topic, partitions):
        self.admin.delete_group_offsets(group, [TopicPartition(topic, p) for p in partitions])

    def delete_records(self, topic, partition, before):
        self.admin.delete_records({TopicPartition(topic, partition): before})


serve(Adapter(sys.argv[1]))
