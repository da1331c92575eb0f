"""Clients of the chaos runs: several requests on one raw connection, each way to leave, and the judgement of what came back. A client is a
generator that yields conditions; whoever runs it resumes it when the condition holds. Nothing here knows of daemons or children."""
import json
import socket
import struct
import time

import client
from chaos_plan import SMALL_CONTEXT
from client import Conn, Failure, check

STATUS_OF = {"engine_not_ready": 503, "engine_start_failed": 503, "engine_stalled": 503, "engine_silent": 503, "engine_crashed": 503, "engine_error": 503,
             "engine_crash_loop": 503, "engine_unloaded": 503, "shutting_down": 503, "queue_timeout": 503, "queue_full": 429, "request_cancelled": 499,
             "request_crashes_engine": 422, "context_length_exceeded": 400, "invalid_request": 400, "invalid_json": 400, "request_timeout": 408,
             "headers_too_large": 431, "not_found": 404}
IN_DESK = {"engine_crash_loop", "engine_unloaded", "queue_full", "shutting_down", "request_crashes_engine"}  # may be an ending or a rejection
NOT_IN_DESK = {"invalid_request", "invalid_json", "request_timeout", "headers_too_large", "not_found"}  # never counted
INLINE_TEXT = 15000  # characters; longer prompts are surely tokenised by a worker


class Reply:
    """One whole reply as it came."""

    def __init__(self, conn):
        self.status, self.headers, self.body = conn.status, conn.headers, bytes(conn.body)
        self.events = conn.events
        self.stream = "text/event-stream" in conn.headers.get("content-type", "")


class Record:
    """What became of one request."""

    def __init__(self, spec):
        self.spec = spec
        self.sent_at = None      # when the last byte was sent
        self.left = False        # we closed, reset, or (plain) half-closed before its answer was whole
        self.reply = None
        self.broken = None       # the connection ended, or we could not send: why
        self.passed_over = False # pipelined behind a reply that said Connection: close
        self.deleted = None      # status of a DELETE that named it
        self.outcome = None      # served, failed, cancelled, rejected, none (never counted), unknown (we left)
        self.code = ""


class Line(Conn):
    """A connection with any number of replies in order."""

    def __init__(self, port, **options):
        super().__init__(port, **options)
        self.replies = []
        self.got_any = False

    def parse(self, now):
        while True:
            super().parse(now)
            self.got_any = self.got_any or self.status is not None
            if not self.complete:
                return
            self.replies.append(Reply(self))
            left_over = bool(self.raw)
            self.forget_reply()
            if not left_over:
                return

    def on_readable(self):
        if self.closed:
            return
        super().on_readable()
        if self.ended and self.complete:  # a body that ended with the connection
            self.replies.append(Reply(self))
            self.forget_reply()

    def try_send(self, data):
        """False when the other side has closed already."""
        try:
            self.send(data)
            return not self.ended
        except (ConnectionError, OSError):
            self.ended = self.ended or "reset"
            return False

    def pause(self):
        client.SELECTOR.unregister(self.socket)

    @property
    def in_reply(self):
        return self.status is not None

    def cut_off(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()


def head_and_body(spec):
    body = json.dumps(spec.body()).encode()
    lines = [f"POST {spec.path} HTTP/{spec.version}", "Host: 127.0.0.1", f"X-Request-Id: {spec.id}", "Content-Type: application/json",
             f"Content-Length: {len(body)}"]
    if spec.expect:
        lines.append("Expect: 100-continue")
    return "\r\n".join(lines).encode() + b"\r\n\r\n", body


class Client:
    """One ClientPlan in action. `world` gives: port, deadline() after which a wait has failed, delete(spec, record), records."""

    def __init__(self, plan, world):
        self.plan, self.world = plan, world
        self.line = None
        self.done = False
        self.way = self.run()
        self.condition = lambda: time.monotonic() >= world.started + plan.at

    def advance(self):
        while not self.done and self.condition():
            try:
                self.condition = next(self.way)
            except StopIteration:
                self.finish()

    def finish(self):
        self.done = True
        if self.line:
            self.line.close()

    def after(self, seconds, also=lambda: False):
        end = time.monotonic() + seconds
        return lambda: time.monotonic() >= end or also()

    def connect(self, **options):
        try:
            self.line = Line(self.world.port, **options)
            return True
        except OSError as error:
            self.world.not_connected(error)
            return False

    def run(self):
        yield from getattr(self, self.plan.kind)()

    # ---- requests one after the other on one connection
    def requests(self):
        slow = any(spec.act == "slow" for spec in self.plan.specs)
        if not self.connect(receive_buffer=4096 if slow else 0):
            return
        for spec in self.plan.specs:
            record = self.world.record(spec)
            if not self.line.try_send(head_and_body(spec)[0]):
                record.broken = "before it was sent"
                return
            if spec.expect:
                yield self.after(0.2, lambda: self.line.got_any or self.line.ended)
            if not self.line.try_send(head_and_body(spec)[1]):
                record.broken = "inside its body"
                return
            record.sent_at = time.monotonic()
            yield from self.behave(spec, record)
            if record.reply is None or self.line.closed or self.line.ended or record.reply.headers.get("connection") == "close":
                break
            if spec is not self.plan.specs[-1]:
                yield self.after(self.plan.gap_s)
        yield from self.nothing_more()

    def behave(self, spec, record):
        line, number = self.line, len(self.line.replies)
        if spec.act == "slow":
            yield from self.read_slowly(spec)
        elif spec.act != "stay":
            if spec.at_delta:
                yield lambda: line.in_reply or len(line.replies) > number or line.ended
            yield self.after(spec.after_s, lambda: len(line.replies) > number or line.ended)
        answered = len(line.replies) > number
        if not answered and not line.ended:
            if spec.act == "delete":
                self.world.delete(record)
            elif spec.act in ("close", "reset", "half"):
                record.left = spec.act != "half" or not spec.stream
                {"close": line.close, "reset": line.cut_off, "half": self.half_close}[spec.act]()
        if line.closed:
            return
        yield lambda: len(line.replies) > number or line.ended
        if len(line.replies) > number:
            record.reply = line.replies[number]
        else:
            record.broken = f"the connection ended ({line.ended}) {'inside' if line.in_reply else 'before'} its reply"

    def half_close(self):
        try:
            self.line.half_close()
        except OSError:
            self.line.ended = self.line.ended or "reset"

    def read_slowly(self, spec):
        line = self.line
        yield self.after(spec.after_s, lambda: line.in_reply or line.ended)
        if line.ended:
            return
        line.pause()
        yield self.after(spec.pause_s)
        line.resume()

    def nothing_more(self):
        """Exactly once: after the last reply nothing follows on the connection."""
        line = self.line
        if line.closed or line.ended:
            return
        number = len(line.replies)
        yield self.after(0.01)
        check(len(line.replies) == number and not line.raw and not line.in_reply, "bytes that nobody asked for", line.replies and line.replies[-1].body, bytes(line.raw))

    # ---- several in one write
    def pipeline(self):
        if not self.connect():
            return
        line, records = self.line, [self.world.record(spec) for spec in self.plan.specs]
        if not line.try_send(b"".join(b"".join(head_and_body(spec)) for spec in self.plan.specs)):
            for record in records:
                record.broken = "before it was sent"
            return
        for record in records:
            record.sent_at = time.monotonic()
        first = self.plan.specs[0]
        if first.act in ("close", "reset"):
            yield self.after(first.after_s, lambda: len(line.replies) == len(records) or line.ended)
            for number, record in enumerate(records):
                record.reply = line.replies[number] if number < len(line.replies) else None
                record.left = record.reply is None
            line.close() if first.act == "close" else line.cut_off()
            return
        for number, record in enumerate(records):
            yield lambda: len(line.replies) > number or line.ended  # noqa: B023 (it is asked before number moves on)
            if len(line.replies) > number:
                record.reply = line.replies[number]
            else:
                record.broken = f"the connection ended ({line.ended}) {'inside' if line.in_reply else 'before'} its reply"
                record.passed_over = line.replies and line.replies[-1].headers.get("connection") == "close" and not line.in_reply
        yield from self.nothing_more()

    # ---- requests that stay short
    def cut(self):
        if not self.connect():
            return
        spec, line = self.plan.specs[0], self.line
        head, body = head_and_body(spec)
        line.try_send(head[:len(head) // 2] if self.plan.cut == "head" else head + body[:len(body) // 2])
        yield self.after(self.plan.after_s, lambda: line.ended)
        if self.plan.then == "close":
            return
        if self.plan.then == "reset":
            return line.cut_off()
        if self.plan.then == "half" and not line.ended:
            self.half_close()
        yield lambda: line.ended
        check(len(line.replies) <= 1 and not line.in_reply, "at most one whole reply to a request that was cut", line.replies, bytes(line.body))
        if line.replies:
            code = judge_error(line.replies[0])
            check(code in ("request_timeout", "invalid_request", "queue_full"), "an error that fits a cut request", line.replies[0].body)

    def garbage(self):
        if not self.connect():
            return
        line = self.line
        line.try_send(self.plan.data)
        yield lambda: line.ended
        check(len(line.replies) <= 1, "one reply at most", line.replies)
        if line.replies:
            check(line.replies[0].status in (400, 408, 414, 429, 431, 501, 505), "garbage is refused", line.replies[0].status, line.replies[0].body)

    def look(self):
        """GETs while the others do what they do: the daemon itself always answers."""
        if not self.connect():
            return
        line = self.line
        for number, path in enumerate(("/health", "/status", "/metrics", "/ready", "/v1/models")):
            if not line.try_send(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()):
                break
            yield lambda: len(line.replies) > number or line.ended  # noqa: B023
            if line.ended:
                break
            reply = line.replies[number]
            refused = reply.status == 429 and self.world.refuses_connections
            check(refused or reply.status == 200 or (path == "/ready" and reply.status == 503), f"GET {path}", reply.status, reply.body)
            if refused:
                return
            if path == "/status":
                check_status(json.loads(reply.body))
            yield self.after(self.plan.after_s)
        self.world.may_have_ended(line)

    def idle(self):
        if self.connect():
            yield self.after(self.plan.after_s * 4, lambda: self.line.ended)


# ---- what is right

def check_status(status):
    """The counts agree with each other at any moment (T16)."""
    requests, active = status["requests"], status["active"]
    phases = [item["phase"] for item in active]
    running = sum(phase in ("prefill", "decoding", "encoding", "stopping") for phase in phases)
    check(requests["running"] == running and requests["queued"] == phases.count("queued") and requests["loading"] == phases.count("loading"),
          "the counts of /status agree with its list", requests, phases)
    check(not (requests["queued"] and not running and status["engine"]["state"] == "ready"), "nobody is queued before a free engine", status)
    check(min(requests["running"], requests["queued"], requests["loading"]) >= 0, "no count below 0", requests)


def judge_error(reply):
    """A plain error: JSON, a known code with its status, Retry-After where the contract wants it. Returns the code."""
    check(reply.headers.get("content-type", "").startswith("application/json"), "an error is JSON", reply.headers)
    error = json.loads(reply.body)["error"]
    check(error["code"] in STATUS_OF and STATUS_OF[error["code"]] == reply.status, "a known code with its status", reply.status, error)
    check(error["message"] and error["type"], "an error has message and type", error)
    check(("retry-after" in reply.headers) == (reply.status in (429, 503)), "Retry-After on each 503 and 429, and on them alone", reply.status, reply.headers)
    return error["code"]


def check_text(text, spec, letters):
    """Letters in the order in which the engine cycles through them, beginning where this request's must."""
    n = len(letters.ids)
    certain = spec.max_tokens + len(spec.text) < SMALL_CONTEXT - 40
    first = [letters.texts[(spec.max_tokens + i) % n] for i in range(n)] if certain else None
    for turn in range(n):
        cycle = first or [letters.texts[(turn + i) % n] for i in range(n)]
        if text == "".join(cycle[i % n] for i in range(len(text))):
            return
        if first:
            break
    raise Failure(f"the text of {spec} is not its own: {text[:200]!r}")


def judge_stream(reply, spec, letters):
    """[DONE] after one finish_reason, or one error as the last event; text in order. Returns (outcome, code)."""
    data = [event for event in reply.events if event.kind != "comment"]
    check(all(event.kind == "data" for event in data), "data events alone", data)
    said_done = [i for i, event in enumerate(data) if event.text == "[DONE]"]
    chunks = [event.json() for event in data if event.text != "[DONE]"]
    errors = [i for i, chunk in enumerate(chunks) if "error" in chunk]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", [])]
    reasons = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    pieces = [(choice["delta"].get("content") if "delta" in choice else choice.get("text")) or "" for choice in choices]
    check_text("".join(pieces), spec, letters)
    check(len({chunk["id"] for chunk in chunks if "id" in chunk}) <= 1, "one id in all chunks", chunks[:3])
    if errors:
        check(errors == [len(chunks) - 1] and not said_done and not reasons, "one error, as the last event, and no sign of success", data[-3:])
        error = chunks[-1]["error"]
        check(STATUS_OF.get(error["code"]) == error["status"], "a known code with its status", error)
        return outcome_of(error["code"], spec), error["code"]
    check(said_done == [len(data) - 1] and len(reasons) == 1, "a stream ends with one finish_reason and [DONE]", data[-3:], reasons)
    if spec.usage:
        check(chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == sum(map(len, pieces)), "usage counts the tokens", chunks[-1])
    return "served", ""


def outcome_of(code, spec):
    if code in NOT_IN_DESK:
        return "none"
    if code == "context_length_exceeded" or (code == "request_cancelled" and len(spec.text) > INLINE_TEXT):
        return "maybe counted"  # it may have ended before the desk had it
    if code == "request_cancelled":
        return "cancelled"
    return "maybe rejected" if code in IN_DESK else "failed"


def judge(record, letters):
    """Sets the record's outcome; a Failure says what is wrong with the reply."""
    reply, spec = record.reply, record.spec
    if reply is None:
        record.outcome = "none" if record.passed_over else "unknown"
        return
    check(reply.headers.get("x-request-id") == spec.id or reply.status in (408, 429, 431), "the reply carries its request's id", reply.headers, spec)
    if reply.status != 200:
        record.code = judge_error(reply)
        record.outcome = "none" if b"(http.connections)" in reply.body else outcome_of(record.code, spec)
        return
    check(reply.stream == spec.stream, "a stream for those who asked for one", spec, reply.headers)
    if spec.stream:
        record.outcome, record.code = judge_stream(reply, spec, letters)
        return
    answer = json.loads(reply.body)
    choice = answer["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    check_text(text, spec, letters)
    check(choice["finish_reason"] in ("stop", "length") and answer["usage"]["completion_tokens"] == len(text), "a whole answer", answer)
    record.outcome = "served"
