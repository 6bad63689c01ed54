"""What the Python adapters share: the loop that reads operations and answers them."""

import base64
import json
import os
import sys
import traceback


class Lacks(Exception):
    """The client has no such thing."""


def encode(b):
    return None if b is None else base64.b64encode(b).decode()


def decode(s):
    return None if s is None else base64.b64decode(s)


def record(key, value, headers, timestamp, partition, offset):
    headers = [[name, encode(content)] for name, content in headers or []]
    return {"k": encode(key), "v": encode(value), "h": headers, "t": timestamp, "p": partition, "o": offset}


def headers_of(r):
    return [(name, decode(content)) for name, content in r["h"]]


def serve(adapter):
    """Answers one line for each line. Whatever the client itself prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        operation = json.loads(line)
        try:
            method = getattr(adapter, operation.pop("op"), None)
            if method is None:
                raise Lacks("")
            answer = {"ok": method(**operation)}
        except Lacks as lacks:
            answer = {"lacks": str(lacks)}
        except Exception as failure:
            traceback.print_exc()
            answer = {"error": f"{type(failure).__name__}: {failure}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()
    os._exit(0)  # members that were not closed end as in a crash
