"""The two peers of `gpu-agent bench control`, in one file and with the standard library alone.

`producer`: a symbolic engine of the base grammar. It answers GEN with 13 token lines and a DONE that carries the prompt's length, without
looking at the ids more than to count them.

`pump`: a plain Python client of that producer: a thread that reads lines into a queue, a lock around a turn, a parser for the lines. It takes
`<samples> <prompt ids>` on stdin and answers with one JSON line of first-token and whole-turn times in milliseconds.
"""

import json
import queue
import subprocess
import sys
import threading
import time

TOKENS = 13


def producer():
    out = sys.stdout.buffer
    out.write(b"READY 262144 stop\n")
    out.flush()
    for line in sys.stdin.buffer:
        if line.startswith(b"QUIT"):
            return
        if not line.startswith(b"GEN"):
            continue
        count = line.count(b",") + 1
        for token in range(1, TOKENS + 1):
            out.write(b"T %d\n" % token)
            out.flush()
        out.write(b"DONE %d %d 1.0 1.0 stop 0 0 0 0 0 0 0 0.0 %d 0\n" % (TOKENS, count, count))
        out.flush()


class Pump:
    def __init__(self):
        self.lock = threading.Lock()
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            [sys.executable, __file__, "producer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        threading.Thread(target=self.read, daemon=True).start()
        if not self.lines.get().startswith("READY"):
            raise RuntimeError("the producer did not become ready")

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode().rstrip("\n"))

    def generate(self, ids):
        with self.lock:
            command = "GEN 64 " + ",".join(map(str, ids)) + "\n"
            self.process.stdin.write(command.encode())
            self.process.stdin.flush()
            while True:
                words = self.lines.get().split()
                if words[0] == "T":
                    yield int(words[1])
                elif words[0] == "DONE":
                    self.statistics = {"generated": int(words[1]), "prompt": int(words[2]), "finish": words[5]}
                    return


def pump():
    turns = Pump()
    for request in sys.stdin:
        samples, prompt_ids = map(int, request.split())
        ids = list(range(1, prompt_ids + 1))
        first, whole = [], []
        for _ in range(samples):
            start = time.perf_counter()
            got = 0
            for _ in turns.generate(ids):
                got += 1
                if got == 1:
                    first.append((time.perf_counter() - start) * 1000)
            whole.append((time.perf_counter() - start) * 1000)
            if got != TOKENS or turns.statistics["prompt"] != prompt_ids:
                raise RuntimeError("a turn came back wrong")
        print(json.dumps({"first": first, "whole": whole}), flush=True)


{"producer": producer, "pump": pump}[sys.argv[1]]()
