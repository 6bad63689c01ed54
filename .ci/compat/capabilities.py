#!/usr/bin/env python3
"""The capabilities that a Kafka client is tried for, each a function below; its first line is its title in the table.

Usage: capabilities.py [--only NAME,...] [--limit SECONDS] BOOTSTRAP CLIENT ADAPTER-COMMAND...

A client comes as an adapter: a program that holds producers and consumers of that client and does what one line of JSON
on its standard input tells it to, as README.md describes. So every client is judged by the same code. Members of a
group are processes of their own. Prints one line a capability: client, its version, capability, verdict (works, fails,
lacks), reason; tab-separated.
"""

import argparse
import base64
import json
import os
import random
import subprocess
import sys
import threading
import time


class Lacks(Exception):
    """The client has no such thing."""


class Refused(Exception):
    """The client reported an error."""


def check(condition, message):
    if not condition:
        raise AssertionError(message)


## Adapters


class Adapter:
    """One process of the client. Operations are methods: adapter.create_topic(topic="t", partitions=1)."""

    def __init__(self, run):
        self.log = open(run.log_file, "ab")
        self.run = run
        self.process = subprocess.Popen(
            run.command + [run.bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        run.adapters.append(self)

    def begin(self, op, **arguments):
        self.op = op
        self.run.trace(f"{self.process.pid} > {op} {str(arguments)[:300]}")
        self.process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def end(self):
        line = self.process.stdout.readline()
        if not line:
            raise Refused(f"the client's process ended ({self.process.poll()})")
        self.run.trace(f"{self.process.pid} < {line.decode()[:300].rstrip()}")
        answer = json.loads(line)
        if "lacks" in answer:
            raise Lacks(answer["lacks"] or "no " + self.op.replace("_", " "))
        if "error" in answer:
            raise Refused(answer["error"])
        return answer.get("ok") or {}

    def __getattr__(self, op):
        def call(**arguments):
            self.begin(op, **arguments)
            return self.end()

        return call

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()
        self.log.close()


class Run:
    """What one capability needs: adapters, names that no other run uses, and a time limit."""

    def __init__(self, options, capability):
        self.bootstrap, self.client, self.command = options.bootstrap, options.client, options.adapter
        self.spare = options.spare
        self.log_file = os.path.join(options.logs, f"{options.client}-{capability}.log")
        self.adapters = []
        self.prefix = f"{options.client}-{capability}-{os.getpid()}-{int(time.time())}"
        self.deadline = time.monotonic() + options.limit
        self.lock = threading.Lock()
        open(self.log_file, "wb").close()

    def trace(self, line):
        with self.lock, open(self.log_file, "ab") as f:
            f.write(f"{time.time():.3f} {line}\n".encode())

    def adapter(self):
        return Adapter(self)

    def name(self, suffix):
        return f"{self.prefix}-{suffix}"

    def topic(self, adapter, suffix, partitions=1, **configs):
        """Makes a topic with the client, or with the spare one if it makes none."""
        topic = self.name(suffix)
        configs = {name.replace("_", "."): str(value) for name, value in configs.items()}
        try:
            adapter.create_topic(topic=topic, count=partitions, configs=configs)
        except Lacks:
            if not self.spare:
                raise
            command, self.command = self.command, self.spare
            helper = self.adapter()
            self.command = command
            helper.create_topic(topic=topic, count=partitions, configs=configs)
            helper.stop()
        return topic

    def left(self, what):
        check(time.monotonic() < self.deadline, f"{what}: not within the time limit")

    def stop(self):
        for a in self.adapters:
            a.process.kill() if time.monotonic() > self.deadline else None
        for a in self.adapters:
            a.stop()


def encode(b):
    return None if b is None else base64.b64encode(b).decode()


def decode(s):
    return None if s is None else base64.b64decode(s)


class Record:
    def __init__(self, key, value, headers=(), timestamp=None, partition=None, offset=None):
        self.key, self.value, self.headers, self.timestamp = key, value, list(headers), timestamp
        self.partition, self.offset = partition, offset

    def json(self):
        headers = [[name, encode(value)] for name, value in self.headers]
        return {"k": encode(self.key), "v": encode(self.value), "h": headers, "t": self.timestamp}

    @classmethod
    def of(cls, j):
        headers = [(name, decode(value)) for name, value in j.get("h") or []]
        return cls(decode(j["k"]), decode(j["v"]), headers, j["t"], j["p"], j["o"])


def send(adapter, producer, topic, records, partition=0):
    return adapter.send(id=producer, topic=topic, partition=partition, records=[r.json() for r in records])


def numbered(numbers, prefix="v"):
    return [Record(b"k%d" % n, b"%s%d" % (prefix.encode(), n)) for n in numbers]


def read(run, adapter, topic, count, partitions=(0,), committed=False, idle=1.5, consumer="reader"):
    """Reads a topic from its beginning until count records came, and then a little longer: no more may come."""
    adapter.assign(id=consumer, topic=topic, partitions=list(partitions), committed=committed)
    got, quiet_since = [], None
    while True:
        records = [Record.of(r) for r in adapter.poll(id=consumer, ms=200)["records"]]
        got += records
        now = time.monotonic()
        if records or len(got) < count:
            quiet_since = now
        elif now - quiet_since > idle:
            break
        run.left(f"{len(got)} of {count} records came")
    adapter.close(id=consumer)
    check(len(got) == count, f"{len(got)} records came, want {count}")
    return got


## Records


def sample(count, lacks):
    """Records with null and empty keys and values, headers (binary, empty, repeated names) and timestamps of their own."""
    start = int(time.time()) * 1000 - 3_600_000
    records = []
    for i in range(count):
        key = (None if "null key" not in lacks else b"k") if i % 5 == 0 else b"key-%d" % i
        value = b"value %d " % i + b"lorem ipsum dolor sit amet " * (i % 9)
        if i % 7 == 3 and key is not None and "null value" not in lacks:
            value = None
        headers = []
        if i % 3 and "headers" not in lacks:
            headers = [("number", b"%d" % i), ("more", b"text")]
            if "binary" not in lacks:
                headers.append(("bytes", bytes([0, 255, 128, i % 256])))
            if "empty header" not in lacks:
                headers.append(("empty", b""))
            if i % 2 and "repeated headers" not in lacks:
                headers.append(("number", b"again"))
        records.append(Record(key, value, headers, None if "timestamps" in lacks else start + i * 1000))
    return records


def compare(want, got, lacks):
    for i, (w, g) in enumerate(zip(want, got)):
        for field in ("key", "value", "headers", "timestamp"):
            if field == "timestamp" and "timestamps" in lacks:
                continue
            a, b = getattr(w, field), getattr(g, field)
            if field == "headers":
                a, b = sorted(a), sorted(b)
            check(a == b, f"record {i}: {field} is {str(b)[:80]}, want {str(a)[:80]}")
        check(g.offset == i, f"record {i} has offset {g.offset}")
    check(len(want) == len(got), f"{len(got)} records, want {len(want)}")


def codec_round_trip(run, codec):
    a = run.adapter()
    lacks = a.hello().get("lacks", {})
    topic = run.topic(a, "topic")
    want = sample(300, lacks)
    a.producer(id="p", codec=codec)
    for i in range(0, 300, 100):
        send(a, "p", topic, want[i : i + 100])
    a.close(id="p")
    compare(want, read(run, a, topic, len(want)), lacks)
    return lacks_note(lacks)


def lacks_note(lacks):
    order = ["timestamps", "null key", "null value", "headers", "repeated headers", "empty header", "binary"]
    missing = [name for name in order if name in lacks]
    return "without " + ", ".join(missing) if missing else ""


def none(run):
    """produce and consume"""
    return codec_round_trip(run, "none")


def gzip(run):
    """gzip"""
    return codec_round_trip(run, "gzip")


def snappy(run):
    """snappy"""
    return codec_round_trip(run, "snappy")


def lz4(run):
    """lz4"""
    return codec_round_trip(run, "lz4")


def zstd(run):
    """zstd"""
    return codec_round_trip(run, "zstd")


def big(run):
    """records of 900 kB, refused above max.message.bytes"""
    a = run.adapter()
    topic = run.topic(a, "topic")
    small = run.topic(a, "small", max_message_bytes=10_000)
    generator = random.Random(1)
    want = [Record(b"k%d" % i, generator.randbytes(450_000).hex().encode()) for i in range(8)]
    a.producer(id="p", codec="none")
    for r in want:
        send(a, "p", topic, [r])
    got = read(run, a, topic, len(want))
    check([r.value for r in want] == [r.value for r in got], "a value differs")
    try:
        send(a, "p", small, [Record(b"k", b"x" * 20_000)])
    except Refused as refused:
        text = str(refused).lower().replace("_", " ")
        check("large" in text or "size" in text, f"refused, but not for its size: {refused}")
        return
    raise AssertionError("20 000 bytes went into a topic with max.message.bytes=10000")


def idempotent(run):
    """idempotent producer: 5000 records, order and number exact"""
    a = run.adapter()
    topic = run.topic(a, "topic")
    a.producer(id="p", codec="none", idempotent=True)
    for i in range(0, 5000, 500):
        send(a, "p", topic, numbered(range(i, i + 500)))
    a.close(id="p")
    got = [r.value for r in read(run, a, topic, 5000)]
    check(got == [b"v%d" % i for i in range(5000)], "the order or the content differs")


## Groups


class Group:
    """Members of one group and what they have seen. A record below a committed offset may never come again."""

    def __init__(self, run, topic, **options):
        self.run, self.topic, self.options = run, topic, options
        self.group = run.name("group")
        self.members, self.seen, self.committed = {}, [], {}

    def join(self, name, **options):
        adapter = self.run.adapter()
        self.members[name] = {"adapter": adapter, "assignment": [], "events": []}
        adapter.consumer(id="c", group=self.group, topic=self.topic, **{**self.options, **options})

    def poll(self):
        for m in self.members.values():
            m["adapter"].begin("poll", id="c", ms=200)
        for m in self.members.values():
            answer = m["adapter"].end()
            m["assignment"] = sorted(answer.get("assignment") or [])
            m["events"] += answer.get("events") or []
            for j in answer["records"]:
                r = Record.of(j)
                below = self.committed.get(r.partition, 0)
                check(r.offset >= below, f"offset {r.offset} of {r.partition} came again, committed was {below}")
                self.seen.append(r)
                m.setdefault("next", {})[r.partition] = r.offset + 1
        self.run.left(f"{len({r.value for r in self.seen})} records seen, assignments {self.assignments()}")

    def commit(self):
        """Commits what each member has read of the partitions it has."""
        for m in self.members.values():
            mine = {p: o for p, o in m.get("next", {}).items() if p in m["assignment"]}
            if mine:
                m["adapter"].commit(id="c")
                for p, o in mine.items():
                    self.committed[p] = max(self.committed.get(p, 0), o)

    def assignments(self):
        return {name: m["assignment"] for name, m in self.members.items()}

    def until(self, condition):
        while not condition():
            self.poll()

    def until_seen(self, count):
        self.until(lambda: len({r.value for r in self.seen}) >= count)

    def until_shared(self, partitions, *sizes):
        """Waits until the members have all partitions, sizes of them each, none twice."""

        def shared():
            lists = [m["assignment"] for m in self.members.values()]
            return (
                sorted(len(x) for x in lists) == sorted(sizes)
                and sorted(p for x in lists for p in x) == list(range(partitions))
            )

        self.until(shared)

    def leave(self, name):
        adapter = self.members.pop(name)["adapter"]
        adapter.close(id="c")
        adapter.stop()


def group_of_two(run, **options):
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=4)
    a.producer(id="p", codec="none")

    def produce(start, count):
        for p in range(4):
            send(a, "p", topic, numbered(range(start + p, start + count, 4)), partition=p)

    produce(0, 400)
    g = Group(run, topic, **options)
    g.join("first")
    g.until_seen(100)
    g.commit()
    g.join("second")
    g.until_shared(4, 2, 2)
    produce(400, 100)
    g.until_seen(500)
    g.commit()
    g.leave("second")
    g.until_shared(4, 4)
    produce(500, 100)
    g.until_seen(600)
    g.commit()
    g.leave("first")
    check({r.value for r in g.seen} == {b"v%d" % i for i in range(600)}, "not the records that were sent")

    produce(600, 12)
    before = len(g.seen)
    g.join("third")
    g.until_seen(612)
    for _ in range(5):
        g.poll()
    resumed = sorted(int(r.value[1:]) for r in g.seen[before:])
    check(resumed == list(range(600, 612)), f"resumed with {resumed}, want 600 to 611")
    g.leave("third")


def group(run):
    """group: a second member joins and leaves, resume from commit"""
    group_of_two(run)


def static(run):
    """static membership: a member restarts without a rebalance"""
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=4)
    g = Group(run, topic, session_ms=20_000)
    g.join("one", instance="i1")
    g.join("two", instance="i2")
    g.until_shared(4, 2, 2)
    for _ in range(5):  # whatever rebalance still goes on
        g.poll()
    g.until_shared(4, 2, 2)
    had, other = g.members["one"]["assignment"], g.members["two"]
    events = len(other["events"])
    crashed = g.members.pop("one")["adapter"]
    crashed.process.kill()
    g.join("one again", instance="i1")
    g.until_shared(4, 2, 2)
    for _ in range(5):
        g.poll()
    check(g.members["one again"]["assignment"] == had, f"got {g.assignments()}, had {had} before")
    check(len(other["events"]) == events, f"the other member saw a rebalance: {other['events'][events:]}")


def cooperative(run):
    """cooperative rebalance: what stays is not revoked"""
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=4)
    a.producer(id="p", codec="none")
    for p in range(4):
        send(a, "p", topic, numbered(range(p, 40, 4)), partition=p)
    g = Group(run, topic, assignor="cooperative-sticky")
    g.join("first")
    g.until_shared(4, 4)
    g.until_seen(40)
    g.commit()
    events = len(g.members["first"]["events"])
    g.join("second")
    g.until_shared(4, 2, 2)
    revoked = [p for kind, partitions in g.members["first"]["events"][events:] if kind == "revoked" for p in partitions]
    check(len(revoked) == 2, f"revoked {revoked}, want the two that moved")
    g.leave("second")
    g.until_shared(4, 4)
    g.leave("first")


def kip848(run):
    """KIP-848 group (group.protocol=consumer), same steps"""
    group_of_two(run, protocol="consumer")


## Transactions


def txn(run):
    """transactions: commit, abort, read_committed"""
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=2)
    a.producer(id="p", codec="none", transactional_id=run.name("txn"))
    a.init(id="p")

    def transaction(start, end):
        a.begin_transaction(id="p")
        for p in (0, 1):
            send(a, "p", topic, numbered(range(start + p, start + 50, 2)), partition=p)
        if end:
            getattr(a, end)(id="p")

    transaction(0, "commit_transaction")
    transaction(50, "abort_transaction")
    transaction(100, "commit_transaction")
    transaction(150, None)  # still open
    want = set(range(0, 50)) | set(range(100, 150))

    def values(records):
        return {int(r.value[1:]) for r in records}

    check(values(read(run, a, topic, 100, (0, 1), True)) == want, "read_committed saw other records")
    check(values(read(run, a, topic, 200, (0, 1), False)) == set(range(200)), "read_uncommitted saw other records")
    a.commit_transaction(id="p")
    want |= set(range(150, 200))
    check(values(read(run, a, topic, 150, (0, 1), True)) == want, "read_committed saw other records")


def txn_etl(run):
    """consume-transform-produce, offsets in the transaction"""
    a = run.adapter()
    source, sink = run.topic(a, "in", partitions=2), run.topic(a, "out")
    a.producer(id="p", codec="none")
    for p in (0, 1):
        send(a, "p", source, numbered(range(p, 200, 2)), partition=p)
    a.producer(id="t", codec="none", transactional_id=run.name("txn"))
    a.init(id="t")
    group, done, round = run.name("group"), {0: 0, 1: 0}, 0
    while sum(done.values()) < 200:
        a.consumer(id="c", group=group, topic=source, committed=True, max_poll=30)
        records = []
        while not records:
            records = [Record.of(r) for r in a.poll(id="c", ms=300)["records"]][:30]
            run.left(f"{sum(done.values())} of 200 done")
        offsets = {}
        for r in records:
            check(r.offset == offsets.get(r.partition, done[r.partition]), f"{r.partition}: {r.offset}, had {done}")
            offsets[r.partition] = r.offset + 1
        a.begin_transaction(id="t")
        send(a, "t", sink, [Record(r.key, b"out-" + r.value) for r in records])
        a.send_offsets(id="t", consumer="c", group=group, topic=source, offsets={str(p): o for p, o in offsets.items()})
        if round % 3 == 1:
            a.abort_transaction(id="t")  # the same records must come again
        else:
            a.commit_transaction(id="t")
            done.update(offsets)
        a.close(id="c")
        round += 1
        run.left(f"{sum(done.values())} of 200 done")
    got = [r.value for r in read(run, a, sink, 200, committed=True)]
    check(sorted(got) == sorted(b"out-v%d" % i for i in range(200)), "not each record exactly once")


def fence(run):
    """a second producer of the same transactional id fences the first"""
    a, b = run.adapter(), run.adapter()
    topic = run.topic(a, "topic")
    for adapter in (a, b):
        adapter.producer(id="p", codec="none", transactional_id=run.name("txn"))
    a.init(id="p")
    a.begin_transaction(id="p")
    send(a, "p", topic, numbered(range(10), "zombie"))
    b.init(id="p")
    b.begin_transaction(id="p")
    send(b, "p", topic, numbered(range(10)))
    try:
        send(a, "p", topic, numbered(range(10, 20), "zombie"))
        a.commit_transaction(id="p")
        fenced = None
    except Refused as refused:
        fenced = str(refused)
    check(fenced, "the first producer committed")
    b.commit_transaction(id="p")
    got = [r.value for r in read(run, b, topic, 10, committed=True)]
    check(got == [b"v%d" % i for i in range(10)], f"committed: {got}")


## Administration


def admin_topics(run):
    """topics: create, list, describe, delete"""
    a = run.adapter()
    topic = run.name("topic")
    a.create_topic(topic=topic, count=3, configs={"retention.ms": "-1"})
    check(topic in a.list_topics()["topics"], "not listed")
    check(a.describe_topic(topic=topic)["partitions"] == 3, "not 3 partitions")
    try:
        a.create_topic(topic=topic, count=3, configs={})
        raise AssertionError("created twice")
    except Refused as refused:
        check("exist" in str(refused).lower(), f"created twice: {refused}")
    a.delete_topic(topic=topic)
    while topic in a.list_topics()["topics"]:
        run.left("deleted, still listed")
        time.sleep(0.1)


def admin_partitions(run):
    """partitions added to a topic"""
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=2)
    a.add_partitions(topic=topic, count=5)
    while a.describe_topic(topic=topic)["partitions"] != 5:
        run.left("partitions added, not described")
        time.sleep(0.1)


def admin_configs(run):
    """topic configs: describe and alter"""
    a = run.adapter()
    topic = run.topic(a, "topic", retention_ms=3_600_000)
    check(a.get_config(topic=topic, name="retention.ms")["value"] == "3600000", "not what it was created with")
    a.set_config(topic=topic, name="retention.ms", value="7200000")
    check(a.get_config(topic=topic, name="retention.ms")["value"] == "7200000", "not what it was set to")
    check(a.get_config(topic=topic, name="cleanup.policy")["value"] == "delete", "cleanup.policy is not delete")


def admin_groups(run):
    """groups: list, describe, delete"""
    a = run.adapter()
    topic = run.topic(a, "topic")
    a.producer(id="p", codec="none")
    send(a, "p", topic, numbered(range(10)))
    g = Group(run, topic)
    g.join("member")
    g.until_seen(10)
    g.commit()
    check(g.group in a.list_groups()["groups"], "not listed")
    described = a.describe_group(group=g.group)
    check(described["state"].lower() == "stable" and described["members"] == 1, f"described as {described}")
    g.leave("member")
    while a.describe_group(group=g.group)["members"]:
        run.left("the member left, still described")
        time.sleep(0.1)
    a.delete_group(group=g.group)
    check(g.group not in a.list_groups()["groups"], "deleted, still listed")


def admin_offsets(run):
    """committed offsets: list, alter"""
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=2)
    a.producer(id="p", codec="none")
    for p in (0, 1):
        send(a, "p", topic, numbered(range(p, 40, 2)), partition=p)
    group = run.name("group")
    a.set_group_offsets(group=group, topic=topic, offsets={"0": 7, "1": 12})
    got = a.group_offsets(group=group, topic=topic, partitions=[0, 1])["offsets"]
    check(got == {"0": 7, "1": 12}, f"committed {got}")
    a.consumer(id="c", group=group, topic=topic)
    first = {}
    while len(first) < 2:
        for j in a.poll(id="c", ms=200)["records"]:
            first.setdefault(j["p"], j["o"])
        run.left(f"began at {first}")
    a.close(id="c")
    check(first == {0: 7, 1: 12}, f"the group begins at {first}")


def admin_delete_offsets(run):
    """committed offsets: delete"""
    a = run.adapter()
    topic = run.topic(a, "topic", partitions=2)
    group = run.name("group")
    a.producer(id="p", codec="none")
    send(a, "p", topic, numbered(range(10)))
    g = Group(run, topic)
    g.group = group
    g.join("member")
    g.until_seen(10)
    g.commit()
    g.leave("member")
    a.delete_group_offsets(group=group, topic=topic, partitions=[0])
    got = a.group_offsets(group=group, topic=topic, partitions=[0])["offsets"]
    check(got.get("0", -1) < 0, f"deleted, but committed {got}")


def delete_records(run):
    """delete records"""
    a = run.adapter()
    topic = run.topic(a, "topic")
    a.producer(id="p", codec="none")
    for i in range(10):
        send(a, "p", topic, numbered(range(i * 10, i * 10 + 10)))
    a.delete_records(topic=topic, partition=0, before=42)
    got = read(run, a, topic, 58)
    check(got[0].offset == 42, f"begins at {got[0].offset}, want 42")


## Positions


def times(run):
    """offsets by time, first and last offset"""
    a = run.adapter()
    topic = run.topic(a, "topic")
    start = int(time.time()) * 1000 - 3_600_000
    records = numbered(range(100))
    for i, r in enumerate(records):
        r.timestamp = start + i * 1000
    a.producer(id="p", codec="none")
    for i in range(0, 100, 20):
        send(a, "p", topic, records[i : i + 20])
    a.assign(id="c", topic=topic, partitions=[0], committed=False)
    for at, want in ((start, 0), (start + 33_500, 34), (start + 99_000, 99), (start - 1, 0)):
        got = a.offset_for_time(id="c", topic=topic, partition=0, time=at)["offset"]
        check(got == want, f"{at - start} ms: offset {got}, want {want}")
    late = a.offset_for_time(id="c", topic=topic, partition=0, time=start + 200_000)["offset"]
    check(late in (-1, 100, None), f"after the last record: offset {late}")
    bounds = a.bounds(id="c", topic=topic, partition=0)
    check((bounds["begin"], bounds["end"]) == (0, 100), f"bounds {bounds}")


def seek(run):
    """seek to begin, end, an offset"""
    a = run.adapter()
    topic = run.topic(a, "topic")
    a.producer(id="p", codec="none")
    send(a, "p", topic, numbered(range(100)))
    a.assign(id="c", topic=topic, partitions=[0], committed=False)

    def first(what):
        while True:
            records = a.poll(id="c", ms=200)["records"]
            if records:
                return records[0]["o"]
            run.left(f"after {what}: nothing came")

    check(first("assign") == 0, "does not begin at 0")
    for to, want in ((50, 50), ("begin", 0), (99, 99)):
        a.seek(id="c", topic=topic, partition=0, to=to)
        got = first(f"seek to {to}")
        check(got == want, f"seek to {to}: {got} came first")
    a.seek(id="c", topic=topic, partition=0, to="end")
    for _ in range(3):
        a.poll(id="c", ms=200)
    send(a, "p", topic, numbered([100]))
    got = first("seek to the end")
    check(got == 100, f"seek to the end: {got} came first")


CAPABILITIES = {
    f.__name__: f
    for f in (
        [none, gzip, snappy, lz4, zstd, big, idempotent, group, static, cooperative, kip848, txn, txn_etl, fence]
        + [admin_topics, admin_partitions, admin_configs, admin_groups, admin_offsets, admin_delete_offsets]
        + [delete_records, times, seek]
    )
}


def title(name):
    return CAPABILITIES[name].__doc__


def attempt(options, name):
    """Runs one capability in the time it may take; the watchdog ends the adapters, which ends the wait for them."""
    run = Run(options, name)
    expired = threading.Event()

    def expire():
        expired.set()
        for adapter in run.adapters:
            adapter.process.kill()

    watchdog = threading.Timer(options.limit + 10, expire)
    watchdog.start()
    try:
        note = CAPABILITIES[name](run)
        return "works", note or ""
    except Lacks as lacks:
        return "lacks", str(lacks)
    except Exception as failure:  # whatever goes wrong is the verdict
        return "fails", "no answer in time" if expired.is_set() else f"{failure}" or type(failure).__name__
    finally:
        watchdog.cancel()
        run.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="", help="capabilities, separated by commas")
    p.add_argument("--limit", type=float, default=60, help="seconds a capability may take")
    p.add_argument("--logs", default=".", help="folder of the adapters' logs")
    p.add_argument("--spare", default="", help="adapter that makes topics for clients that make none")
    p.add_argument("bootstrap")
    p.add_argument("client")
    p.add_argument("adapter", nargs=argparse.REMAINDER)
    options = p.parse_args()
    options.spare = options.spare.split()
    names = [n for n in options.only.split(",") if n] or list(CAPABILITIES)
    for unknown in set(names) - set(CAPABILITIES):
        p.error(f"no capability {unknown}; there are {', '.join(CAPABILITIES)}")
    hello = Run(options, "hello")
    try:
        told = hello.adapter().hello()
    except Exception as failure:
        sys.exit(f"{options.client}: {failure}; see {hello.log_file}")
    finally:
        hello.stop()
    failed = 0
    for name in names:
        if name in told.get("lacks", {}):
            verdict, reason = "lacks", told["lacks"][name]
        else:
            verdict, reason = attempt(options, name)
        failed += verdict == "fails"
        print("\t".join([options.client, told["version"], name, verdict, " ".join(reason.split())[:200]]), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
