"""A raw HTTP/1.1 client for the tests: requests byte by byte, streams with receive times, half-close, close and reset. One thread: every
wait pumps all open connections, so that times are those of arrival. Not here: processes, configuration, what is right."""
import json
import os
import selectors
import socket
import struct
import time

SCALE = float(os.environ.get("PROCESS_TEST_SCALE", "1"))  # above 1 for builds with sanitizers: slack of limits, never the limits themselves
SELECTOR = selectors.DefaultSelector()


class Failure(AssertionError):
    pass


def check(condition, text, *details):
    if not condition:
        raise Failure(text + "".join(f"\n  {detail!r}" for detail in details))


class HeldUp:
    """How long, at most, we ourselves were kept from looking: by a busy machine, or by somebody who stopped us."""
    longest_s = 0.0
    last = time.monotonic()

    @classmethod
    def forget(cls):
        cls.longest_s, cls.last = 0.0, time.monotonic()

    @classmethod
    def looked(cls, wanted_s):
        now = time.monotonic()
        cls.longest_s = max(cls.longest_s, now - cls.last - wanted_s)
        cls.last = now


def pump(timeout=0.0):
    if SELECTOR.get_map():
        for key, _ in SELECTOR.select(timeout):
            key.data()
    else:
        time.sleep(timeout)
    HeldUp.looked(timeout)


def await_until(condition, limit_s, what, every_s=0.005):
    """Pumps until condition() is true and returns its value; a Failure that says `what` (a text, or what gives one) after limit_s."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"after {limit_s:.1f} s still not: {what() if callable(what) else what}")
        pump(every_s)


def run_for(seconds):
    """Lets time pass while everything that arrives is taken: for states that must hold, never to wait for one."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        pump(min(left, 0.02))


class Event:
    def __init__(self, at, kind, text):
        self.at, self.kind, self.text = at, kind, text  # kind: data, comment or the name after "event:"

    def json(self):
        return json.loads(self.text)

    def __repr__(self):
        return f"{self.kind}: {self.text[:300]}"


class Conn:
    def __init__(self, port, host="127.0.0.1", receive_buffer=0, reading=True):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(10)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ended = None       # "eof" or "reset"
        self.closed = False
        self.ended_at = self.sent_at = self.first_byte_at = self.complete_at = None
        self.forget_reply()
        self.raw = bytearray()
        if reading:
            self.resume()

    def forget_reply(self):
        """Ready for the next reply on the same connection."""
        self.status = self.headers = None
        self.continued = False
        self.body = bytearray()
        self.complete = False
        self.events = []
        self.sse_done = 0
        self.first_byte_at = self.complete_at = None

    def resume(self):
        SELECTOR.register(self.socket, selectors.EVENT_READ, self.on_readable)

    # ---- out
    def send(self, data):
        self.sent_at = time.monotonic()
        self.socket.sendall(data)
        return self

    def request(self, method, path, body=None, headers=None, host="127.0.0.1"):
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        return self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        if not self.closed:
            self.closed = True
            try:
                SELECTOR.unregister(self.socket)
            except (KeyError, ValueError):
                pass
            self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    # ---- in
    def on_readable(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            data, self.ended = b"", "reset"
        now = time.monotonic()
        if not data:
            self.ended = self.ended or "eof"
            self.ended_at = now
            SELECTOR.unregister(self.socket)
            undelimited = self.status is not None and "content-length" not in self.headers and not self.chunked
            if undelimited and not self.complete and self.ended == "eof":
                self.complete, self.complete_at = True, now  # a body that ends with the connection
            return
        self.first_byte_at = self.first_byte_at or now
        self.raw += data
        self.parse(now)

    @property
    def chunked(self):
        return "chunked" in self.headers.get("transfer-encoding", "")

    def parse(self, now):
        while self.status is None:
            end = self.raw.find(b"\r\n\r\n")
            if end < 0:
                return
            lines = self.raw[:end].decode("latin-1").split("\r\n")
            del self.raw[:end + 4]
            status = int(lines[0].split(" ")[1])
            if status == 100:
                self.continued = True
            else:
                self.status = status
                self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if self.complete:
            return
        if self.chunked:
            self.parse_chunks()
        elif "content-length" in self.headers:
            missing = int(self.headers["content-length"]) - len(self.body)
            self.body += self.raw[:missing]
            del self.raw[:missing]
            self.complete = len(self.body) == int(self.headers["content-length"])
        else:
            self.body += self.raw
            self.raw.clear()
        if self.complete:
            self.complete_at = now
        if "text/event-stream" in self.headers.get("content-type", ""):
            self.parse_events(now)

    def parse_chunks(self):
        while not self.complete:
            end = self.raw.find(b"\r\n")
            if end < 0:
                return
            size = int(self.raw[:end].split(b";")[0], 16)
            if len(self.raw) < end + 2 + size + 2:
                return
            self.body += self.raw[end + 2:end + 2 + size]
            check(self.raw[end + 2 + size:end + 4 + size] == b"\r\n", "a chunk without its end", bytes(self.raw[:100]))
            del self.raw[:end + 2 + size + 2]
            self.complete = size == 0

    def parse_events(self, now):
        while (end := self.body.find(b"\n\n", self.sse_done)) >= 0:
            block = self.body[self.sse_done:end].decode("utf-8")
            self.sse_done = end + 2
            kind, data = "data", []
            for line in block.split("\n"):
                if line.startswith(":"):
                    self.events.append(Event(now, "comment", line[1:].strip()))
                elif line.startswith("event:"):
                    kind = line[6:].strip()
                elif line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
                else:
                    check(not line, "a line that server-sent events do not know", line)
            if data:
                self.events.append(Event(now, kind, "\n".join(data)))

    # ---- waits
    def wait_head(self, limit_s=10):
        await_until(lambda: self.status is not None or self.ended, limit_s, "the head of a reply")
        check(self.status is not None, "the connection ended before a reply", self.ended)
        return self

    def wait_end(self, limit_s=20):
        await_until(lambda: self.complete or self.ended, limit_s, f"the end of a reply (so far {self.status} {bytes(self.body[-300:])!r})")
        check(self.complete, "the connection ended inside a reply", self.ended, self.status, bytes(self.body[-300:]))
        return self

    def wait_deltas(self, number, limit_s=15):
        await_until(lambda: len(self.deltas) >= number or self.complete or self.ended, limit_s, f"{number} deltas, so far {self.events}")
        check(len(self.deltas) >= number, f"the stream ended before {number} deltas", self.status, self.events, bytes(self.body[:500]))
        return self

    # ---- what came
    def json(self):
        return json.loads(bytes(self.body).decode("utf-8"))

    @property
    def data(self):
        return [event.json() for event in self.events if event.kind == "data" and event.text != "[DONE]"]

    @property
    def comments(self):
        return [event for event in self.events if event.kind == "comment"]

    @property
    def said_done(self):
        return any(event.text == "[DONE]" for event in self.events)

    @property
    def deltas(self):
        """The content pieces of a chat or completions stream."""
        found = []
        for event in self.events:
            if event.kind != "data" or event.text == "[DONE]":
                continue
            for choice in event.json().get("choices", []):
                piece = choice["delta"].get("content") if "delta" in choice else choice.get("text")
                if piece:
                    found.append(piece)
        return found

    @property
    def finish_reasons(self):
        return [choice["finish_reason"] for chunk in self.data for choice in chunk.get("choices", []) if choice.get("finish_reason")]

    @property
    def stream_errors(self):
        return [chunk["error"] for chunk in self.data if "error" in chunk]

    @property
    def took_s(self):
        return self.complete_at - self.sent_at

    def text(self):
        choice = self.json()["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]
