"""The abort matrix: clients that leave a streamed or plain request while it is queued, loading, in prefill or decoding, by close, by reset or by
a client library's own abort. Counts STOPs and GENs, and times the leaving. The daemon and the sockets are real, the engine is scripted and logs
when it reads each line. Not here: what the figures are printed as (tools/bench/abort)."""
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests")
sys.path.insert(0, os.path.join(TESTS, "process"))

from client import SCALE, await_until, check  # noqa: E402

STREAMED = ("streamed", "plain")
PHASES = ("queued", "loading", "prefill", "decoding")
WAYS = ("close", "reset", "library")
MANY = 30000               # tokens or chunks: no trial comes to their end
BLOCKER = 1                # max_tokens of the request that others queue behind; trials have larger ones
FORGOTTEN_S = 0.05         # for a second STOP, or a GEN of one that left, to show itself after a cell
LIMIT_S = 20 * SCALE       # a trial that takes longer has failed, however busy the machine


class RawClient:
    """One request on a socket of its own."""

    def __init__(self, port):
        self.port, self.pid = port, os.getpid()

    def start(self, stream, max_tokens, text):
        body = json.dumps({"messages": [{"role": "user", "content": text}], "stream": stream, "max_tokens": max_tokens}).encode()
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.socket.setblocking(False)

    def take(self):
        """Reads what is there: a close over unread bytes would be a reset."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except BlockingIOError:
            pass

    def leave(self, way):
        """Returns the time at which it began to leave."""
        self.take()
        left = time.monotonic()
        if way == "reset":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
        return left

    def end(self):
        pass


class LibraryClient:
    """The openai library for JavaScript in a process of its own; its abort is the one of an AbortController."""

    def __init__(self, port, work):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "abort_client.mjs")
        shutil.copy(script, work)  # where node finds the library
        self.process = subprocess.Popen(["node", os.path.basename(script), f"http://127.0.0.1:{port}/v1"], cwd=work, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid
        self.expect("ready")

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def expect(self, what):
        line = self.process.stdout.readline().split()
        check(line and line[0] == what, f"the library's process says '{what}'", line)
        return line[1:]

    def start(self, stream, max_tokens, text):
        self.say("start", "stream" if stream else "plain", max_tokens, text.replace(" ", "_"))

    def leave(self, _way):
        self.say("abort")
        left = int(self.expect("aborted")[0]) / 1e9  # its clock is ours: CLOCK_MONOTONIC
        self.expect("settled")
        return left

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def run_queue_s(pid):
    """How long this process's first thread has been ready to run without a processor."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9


class Looker:
    """GET /status on a connection that is kept."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def look(self):
        self.socket.sendall(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self.socket.recv(65536)
        size = int(next(line.split(b":")[1] for line in data[:end].split(b"\r\n") if line.lower().startswith(b"content-length:")))
        while len(data) < end + 4 + size:
            data += self.socket.recv(65536)
        return json.loads(data[end + 4:])

    def until(self, condition, what, every_s=0.001):
        return await_until(lambda: (status := self.look()) and condition(status) and status, LIMIT_S, what, every_s)


class EngineLog:
    """The scripted engine's log from a place on; lines are (time, kind, text)."""

    def __init__(self, fake):
        self.file = open(fake.path("log"), encoding="utf-8")
        self.rest = ""
        self.lines = []

    def read(self):
        *whole, self.rest = (self.rest + self.file.read()).split("\n")
        self.lines += [(float(at), kind, text) for at, _, kind, text in (line.split(" ", 3) for line in whole)]
        return self.lines

    def read_lines(self, word):
        return [(at, text) for at, kind, text in self.read() if kind == "read" and text.startswith(word)]


class Cell:
    """The trials of one cell, and what they gave."""

    def __init__(self, stream, phase, way):
        self.stream, self.phase, self.way = stream, phase, way
        self.times_s, self.waits_s = [], []   # of a trial; the part in which somebody needed was ready and had no processor

    @property
    def name(self):
        return f"{'streamed' if self.stream else 'plain'}, {self.phase}, {self.way}"


class Bench:
    """One daemon and one scripted engine for all cells of a phase."""

    def __init__(self, case, phase, trials, make_client):
        self.case, self.phase, self.trials = case, phase, trials
        job = {"prefill": [("pp", MANY, 0.02)], "decoding": [("tokens", MANY, 0.01)], "queued": [("tokens", MANY, 0.5)], "loading": []}[phase]
        start = {"load": [("until", "go")] if phase == "loading" else [], "ready": "READY 60000 stop ids slots=1", "idle": [], "on_stop": "done", "deaf": False}
        self.daemon = case.daemon("chaos_engine.py", engine={"start": "eager", "stop_s": 2}, config={"queue": {"wait_s": 0}}, wait=None)
        with open(self.daemon.fake.path("plan"), "w", encoding="utf-8") as file:
            file.write(repr({"ids": case.letters.ids, "starts": [start], "jobs": [job] * MANY if job else []}))
        self.daemon.start()
        self.looker = Looker(self.daemon.port)
        await_until(lambda: self.daemon.fake.starts == 1, LIMIT_S, "the engine has started")
        self.log = EngineLog(self.daemon.fake)
        self.engine_pid = self.looker.until(lambda status: status["engine"]["pid"] > 0, "the engine's pid")["engine"]["pid"]
        self.make_client = make_client
        self.number = 5000  # of tokens: more than any trial waits for
        self.random = random.Random(phase)
        self.before = self.looker.look()["totals"]
        if phase != "loading":
            self.looker.until(lambda status: status["engine"]["state"] == "ready", "the engine is ready")
        if phase == "queued":
            self.blocker = RawClient(self.daemon.port)
            self.blocker.start(False, MANY, "the one before")
            self.looker.until(lambda status: status["requests"]["running"] == 1, "one runs")

    def run_cell(self, cell):
        client = self.make_client(cell.way, self.daemon.port)
        try:
            for _ in range(self.trials):
                self.trial(cell, client)
        finally:
            client.end()

    def waits(self, client):
        return sum(run_queue_s(pid) for pid in {self.daemon.pid, self.engine_pid, os.getpid(), client.pid})

    def trial(self, cell, client):
        self.number += 1
        client.start(cell.stream, self.number, f"trial {self.number}")
        self.looker.until(lambda status: any(self.arrived(item) for item in status["active"]), f"a request in phase {self.phase}")
        end = time.monotonic() + self.random.uniform(0, 0.012)  # anywhere between two lines of the engine
        await_until(lambda: time.monotonic() >= end, 1, "a moment", 0.0005)
        before = self.waits(client)
        left = client.leave(cell.way)
        if self.phase in ("queued", "loading"):
            self.looker.until(lambda status: status["requests"][self.phase] == 0, f"nobody is {self.phase}", 0)
            gone = time.monotonic()
        else:
            tag = next(word[4:] for _, text in self.log.read_lines(f"GEN {self.max_new()} ") for word in text.split(" ") if word.startswith("req="))
            stops = await_until(lambda: [at for at, text in self.log.read_lines("STOP") if text == f"STOP {tag}"], LIMIT_S, f"STOP {tag}", 0.001)
            gone = stops[0]
        cell.times_s.append(gone - left)
        cell.waits_s.append(self.waits(client) - before)
        if self.phase in ("prefill", "decoding"):
            self.looker.until(lambda status: status["requests"]["running"] == 0, "the engine is free")

    def max_new(self):
        return self.number

    def arrived(self, item):
        if item["phase"] != self.phase:
            return False
        return {"prefill": item["prefilled"] >= 1, "decoding": item["generated"] >= 1}.get(self.phase, True)

    def finish(self, cells):
        """Each trial was one STOP, or none and no GEN; all were counted as cancelled; the next request is served by the same engine."""
        trials = self.trials * len(cells)
        end = time.monotonic() + FORGOTTEN_S
        await_until(lambda: time.monotonic() >= end, 1, "a moment")
        generations, stops = self.log.read_lines("GEN"), self.log.read_lines("STOP")
        if self.phase == "queued":
            check(len(generations) == 1 and not stops, "who left the queue never reached the engine", generations[-3:], stops[-3:])
            self.blocker.leave("reset")
            trials += 1
        elif self.phase == "loading":
            check(not generations and not stops, "nothing reached a loading engine")
            open(self.daemon.fake.path("go"), "w", encoding="ascii").close()
            self.looker.until(lambda status: status["engine"]["state"] == "ready", "the load went on")
        else:
            check(len(generations) == len(stops) == trials and len({text for _, text in stops}) == trials, "one STOP a trial, never two",
                  len(generations), len(stops), trials)
        self.looker.until(lambda status: self.daemon.idle(status), "idle")
        totals = self.looker.look()["totals"]
        check(totals["cancelled"] == self.before["cancelled"] + trials and totals["served"] == totals["failed"] == 0, "each was counted as cancelled once", totals, trials)
        open(self.daemon.fake.path("calm"), "w", encoding="ascii").close()
        self.looker.socket.close()
        self.daemon.chat_until_answered()
        check(self.daemon.fake.starts == 1 and not self.daemon.fake.log("violation"), "one engine all the time", self.daemon.fake.log("violation"))
        if self.phase in ("queued", "loading"):
            wanted = 1 if self.phase == "queued" else 0
            check(len(self.log.read_lines("GEN")) == wanted + 1 and len(self.log.read_lines("STOP")) == wanted, "nor did it later",
                  self.log.read_lines("GEN")[-3:], self.log.read_lines("STOP"))
        self.daemon.stop()


def run(case, trials, ways, make_client=None, progress=lambda cell: None):
    """All cells with these ways; returns them. make_client(way, port) gives clients for ways that are not raw sockets."""
    cells = []
    for phase in PHASES:
        bench = Bench(case, phase, trials, lambda way, port: RawClient(port) if way in ("close", "reset") else make_client(way, port))
        here = [Cell(streamed == "streamed", phase, way) for streamed in STREAMED for way in ways]
        for cell in here:
            bench.run_cell(cell)
            progress(cell)
        bench.finish(here)
        cells += here
    return cells
