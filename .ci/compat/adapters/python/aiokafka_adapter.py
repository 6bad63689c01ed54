"""Adapter of aiokafka. Its event loop runs in a thread of its own, so that heartbeats go on between operations."""

import asyncio
import sys
import threading
from importlib.metadata import version

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import for_code

from adapter import decode, headers_of, record, serve


class Listener(ConsumerRebalanceListener):
    def __init__(self, events):
        self.events = events

    def on_partitions_revoked(self, revoked):
        self.events.append(["revoked", [p.partition for p in revoked]])

    def on_partitions_assigned(self, assigned):
        self.events.append(["assigned", [p.partition for p in assigned]])


def refused(answers):
    """Raises the first error of (name, code, ...) rows."""
    for name, code, *_ in answers:
        if code:
            raise for_code(code)(name)


class Adapter:
    def __init__(self, bootstrap):
        self.base = {"bootstrap_servers": bootstrap}
        self.admin_client = None
        self.held, self.events = {}, {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def make(self, what, **config):
        async def started():
            made = what(**config)
            await made.start()
            return made

        return self.wait(started())

    def hello(self):
        lacks = {"kip848": "classic protocol only", "cooperative": "eager assignors only"}
        return {"version": version("aiokafka"), "lacks": lacks}

    ## Producers

    def producer(self, id, codec, idempotent=False, transactional_id=None):
        config = {**self.base, "compression_type": None if codec == "none" else codec, "max_request_size": 2_000_000}
        if transactional_id:
            # The producer asks for its id when it starts, so it starts in init.
            self.held[id] = {**config, "transactional_id": transactional_id}
        else:
            self.held[id] = self.make(AIOKafkaProducer, enable_idempotence=idempotent, linger_ms=5, **config)

    def send(self, id, topic, partition, records):
        async def all():
            sent = [
                await self.held[id].send(
                    topic, decode(r["v"]), decode(r["k"]), partition, r["t"], headers_of(r)
                )
                for r in records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), 20)

        self.wait(all())

    def init(self, id):
        self.held[id] = self.make(AIOKafkaProducer, **self.held[id])

    def begin_transaction(self, id):
        self.wait(self.held[id].begin_transaction())

    def commit_transaction(self, id):
        self.wait(self.held[id].commit_transaction())

    def abort_transaction(self, id):
        self.wait(self.held[id].abort_transaction())

    def send_offsets(self, id, consumer, group, topic, offsets):
        positions = {TopicPartition(topic, int(p)): o for p, o in offsets.items()}
        self.wait(self.held[id].send_offsets_to_transaction(positions, group))

    ## Consumers

    def config(self, committed):
        isolation = "read_committed" if committed else "read_uncommitted"
        return {**self.base, "isolation_level": isolation, "enable_auto_commit": False, "auto_offset_reset": "earliest"}

    def consumer(
        self, id, group, topic, instance=None, assignor=None, protocol=None, committed=False, session_ms=6000, max_poll=500
    ):
        events = self.events[id] = []

        async def started():
            c = AIOKafkaConsumer(
                group_id=group,
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=500,
                partition_assignment_strategy=[RangePartitionAssignor],
                group_instance_id=instance,
                max_poll_records=max_poll,
                **self.config(committed),
            )
            c.subscribe([topic], listener=Listener(events))
            await c.start()
            return c

        self.held[id] = self.wait(started())

    def assign(self, id, topic, partitions, committed):
        async def started():
            c = AIOKafkaConsumer(group_id=None, **self.config(committed))
            await c.start()
            c.assign([TopicPartition(topic, p) for p in partitions])
            await c.seek_to_beginning()
            return c

        self.held[id] = self.wait(started())

    def poll(self, id, ms):
        c = self.held[id]
        records = [
            record(r.key, r.value, r.headers, r.timestamp, r.partition, r.offset)
            for some in self.wait(c.getmany(timeout_ms=ms)).values()
            for r in some
        ]
        events = self.events.setdefault(id, [])
        told = {"records": records, "assignment": [p.partition for p in c.assignment()], "events": list(events)}
        events.clear()
        return told

    def commit(self, id):
        self.wait(self.held[id].commit())

    def seek(self, id, topic, partition, to):
        c, at = self.held[id], TopicPartition(topic, partition)
        if to == "begin":
            self.wait(c.seek_to_beginning(at))
        elif to == "end":
            self.wait(c.seek_to_end(at))
        else:
            c.seek(at, to)

    def offset_for_time(self, id, topic, partition, time):
        at = TopicPartition(topic, partition)
        found = self.wait(self.held[id].offsets_for_times({at: time}))[at]
        return {"offset": found.offset if found else None}

    def bounds(self, id, topic, partition):
        c, at = self.held[id], TopicPartition(topic, partition)
        return {"begin": self.wait(c.beginning_offsets([at]))[at], "end": self.wait(c.end_offsets([at]))[at]}

    def close(self, id):
        if not isinstance(self.held[id], dict):
            self.wait(self.held.pop(id).stop())

    ## Administration

    @property
    def admin(self):
        if not self.admin_client:
            self.admin_client = self.make(AIOKafkaAdminClient, **self.base)
        return self.admin_client

    def create_topic(self, topic, count, configs):
        new = NewTopic(topic, count, 1, topic_configs=configs)
        refused(self.wait(self.admin.create_topics([new])).topic_errors)

    def delete_topic(self, topic):
        refused(self.wait(self.admin.delete_topics([topic])).topic_error_codes)

    def list_topics(self):
        return {"topics": self.wait(self.admin.list_topics())}

    def describe_topic(self, topic):
        return {"partitions": len(self.wait(self.admin.describe_topics([topic]))[0]["partitions"])}

    def add_partitions(self, topic, count):
        refused(self.wait(self.admin.create_partitions({topic: NewPartitions(count)})).topic_errors)

    def get_config(self, topic, name):
        answers = self.wait(self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        entries = {entry[0]: entry[1] for answer in answers for entry in answer.resources[0][4]}
        return {"value": entries[name]}

    def set_config(self, topic, name, value):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={name: value})
        for answer in self.wait(self.admin.alter_configs([resource])):
            for code, message, *_ in answer.resources:
                refused([(message, code)])

    def list_groups(self):
        return {"groups": [g[0] for g in self.wait(self.admin.list_consumer_groups())]}

    def describe_group(self, group):
        described = self.wait(self.admin.describe_consumer_groups([group]))[0].groups[0]
        return {"state": described[2], "members": len(described[5])}

    def group_offsets(self, group, topic, partitions):
        wanted = [TopicPartition(topic, p) for p in partitions]
        got = self.wait(self.admin.list_consumer_group_offsets(group, partitions=wanted))
        return {"offsets": {str(p.partition): o.offset for p, o in got.items()}}

    def delete_records(self, topic, partition, before):
        self.wait(self.admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)}))


serve(Adapter(sys.argv[1]))
