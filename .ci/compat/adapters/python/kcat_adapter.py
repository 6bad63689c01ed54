"""Adapter of kcat, the command: a send is a run of it, a consumer one that goes on running."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time

from adapter import decode, record, serve

COMMIT_MS = 100


class Consumer:
    """A running kcat whose output goes into a queue, and whose messages tell of rebalances."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=os.setpgrp)
        self.records, self.assignment, self.events = queue.Queue(), set(), []
        for read in (self.read_records, self.read_messages):
            threading.Thread(target=read, daemon=True).start()

    def read_records(self):
        for line in self.process.stdout:
            m = json.loads(line)
            pairs = m.get("headers") or []
            headers = [(name, text.encode()) for name, text in zip(pairs[::2], pairs[1::2])]
            key, value = (None if m[name] is None else m[name].encode() for name in ("key", "payload"))
            self.records.put(record(key, value, headers, m["ts"], m["partition"], m["offset"]))

    def read_messages(self):
        for line in self.process.stderr:
            print(line, file=sys.stderr, end="")
            if "rebalanced" in line:
                partitions = [int(p) for p in re.findall(r"\[(\d+)\]", line)]
                revoked = "revo" in line
                self.events.append(["revoked" if revoked else "assigned", partitions])
                change = self.assignment.difference_update if revoked else self.assignment.update
                change(partitions)

    def poll(self, ms):
        records, until = [], time.monotonic() + ms / 1000
        while time.monotonic() < until and not records:
            try:
                records.append(self.records.get(timeout=0.01))
                while True:
                    records.append(self.records.get_nowait())
            except queue.Empty:
                pass
        events, self.events = self.events, []
        return {"records": records, "assignment": sorted(self.assignment), "events": events}

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(15)


class Adapter:
    def __init__(self, bootstrap):
        self.base = ["kcat", "-b", bootstrap]
        self.producers, self.consumers = {}, {}

    def hello(self):
        shown = subprocess.run(["kcat", "-V"], capture_output=True, text=True).stdout
        version, librdkafka = re.search(r"Version (\S+) .*(librdkafka \S+)", shown).groups()
        lacks = {
            "timestamps": "",
            "binary": "",
            "kip848": "its librdkafka is older",
            "times": "none when producing",
            "seek": "begins at an offset, but does not move",
            "delete_records": "no administration",
        }
        for name in ("txn", "txn_etl", "fence"):
            lacks[name] = "one transaction a run"
        for name in ("topics", "partitions", "configs", "groups", "offsets", "delete_offsets"):
            lacks["admin_" + name] = "no administration"
        return {"version": f"{version}, {librdkafka}", "lacks": lacks}

    ## Producers

    def producer(self, id, codec, idempotent=False):
        exact = "true" if idempotent else "false"
        options = ["-z", codec, "-X", "message.max.bytes=2000000", "-X", f"enable.idempotence={exact}"]
        self.producers[id] = options

    def send(self, id, topic, partition, records):
        """Headers and null keys are options, so each run sends records that are alike in them."""
        alike = []
        for r in records + [None]:
            if alike and (r is None or (r["h"], r["k"] is None) != (alike[0]["h"], alike[0]["k"] is None)):
                self.send_alike(id, topic, partition, alike)
                alike = []
            alike.append(r)

    def send_alike(self, id, topic, partition, records):
        # Read as Latin-1, since the delimiters are bytes.
        end, separator = b"\x02", b"\x01"
        keyed = records[0]["k"] is not None
        lines = [(decode(r["k"]) + separator if keyed else b"") + (decode(r["v"]) or b"") for r in records]
        options = ["-P", "-Z", "-t", topic, "-p", str(partition), "-D", "\\x02", *self.producers[id]]
        options += ["-K", "\\x01"] if keyed else []
        for name, value in records[0]["h"]:
            options += ["-H", f"{name}={decode(value).decode()}"]
        done = subprocess.run(self.base + options, input=end.join(lines), capture_output=True, timeout=20)
        if done.returncode or b"ERROR" in done.stderr:
            raise RuntimeError(done.stderr.decode()[-300:])

    ## Consumers

    def consumer(self, id, group, topic, instance=None, assignor="range", committed=False, session_ms=6000):
        options = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_MS,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": assignor,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
        if instance:
            options["group.instance.id"] = instance
        settings = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
        self.consumers[id] = [Consumer(self.base + ["-G", group, "-J", "-u", "-v", *settings, topic])]

    def assign(self, id, topic, partitions, committed):
        isolation = "isolation.level=" + ("read_committed" if committed else "read_uncommitted")
        common = ["-C", "-J", "-u", "-q", "-t", topic, "-o", "beginning", "-X", isolation]
        self.consumers[id] = [Consumer(self.base + common + ["-p", str(p)]) for p in partitions]

    def poll(self, id, ms):
        first, *more = [c.poll(ms) for c in self.consumers[id]]
        for other in more:
            first["records"] += other["records"]
        return first

    def commit(self, id):
        time.sleep(5 * COMMIT_MS / 1000)  # kcat commits what it has printed by itself

    def close(self, id):
        if self.producers.pop(id, None) is None:
            for c in self.consumers.pop(id):
                c.close()


serve(Adapter(sys.argv[1]))
