#!/usr/bin/env -S python3 -SE
"""A scripted engine child that starts fast and runs in one thread, for seeded chaos and for measurements. It does what FAKE_DIR/plan says
(a Python literal, see below) and logs every line that it reads with the system's monotonic time. It judges nothing, but for one thing: it
logs `violation` when a GEN or STOP comes at a moment at which the line protocol forbids it.

plan: {"ids": [token ids that answers cycle through], "starts": [start, ...], "jobs": [steps, ...]}
  The n-th start (over all processes) is starts[n], the n-th GEN runs jobs[n]; beyond the lists, and as soon as FAKE_DIR/calm exists, both are good.
  start: {"load": steps, "ready": line or None, "idle": steps, "on_stop": see below, "deaf": ignores TERM and the end of its input}
  on_stop: "done", "ignore", "die", or seconds until DONE
An answer's first token is ids[max_new % len(ids)], so that a token that strays into another answer shows.
Steps: ("answer", n, s) min(n, max_new) tokens one every s seconds, then DONE     ("tokens", n, s) n tokens whatever max_new says
  ("pp", n, s) ("line", text) (untagged lines: a text that begins with "!") ("raw", bytes) ("sleep", s) ("mute",) ("burn", s)
  ("until", name) waits for a file in FAKE_DIR
  ("die", signal) ("half", text, signal) half a line, then death ("exit", status) ("freeze",) ("close_out",) ("grandchild",) ("stderr", bytes) ("done", finish)
"""
import os
import select
import signal
import sys
import time

FOLDER = os.environ["FAKE_DIR"]
LOG = os.open(FOLDER + "/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
GOOD_START = {"load": [], "ready": "READY 32768 stop", "idle": [], "on_stop": "done", "deaf": False}
GOOD_JOB = [("answer", 3, 0)]
ERROR_S = 0.199  # after ERR, a GEN may come only when 200 ms have passed or the process is gone
SHOWN = 120  # characters of a line in the log; a prompt's ids are of no use there


def log(what, text=""):
    os.write(LOG, f"{time.monotonic():.6f} {os.getpid()} {what} {text[:SHOWN]}\n".encode("utf-8", "replace"))


def next_number(name):
    """0, 1, 2, ... over all processes of this folder."""
    file = os.open(f"{FOLDER}/{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.write(file, b".")
    size = os.fstat(file).st_size
    os.close(file)
    return size - 1


def calm():
    return os.path.exists(FOLDER + "/calm")


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view):]


class Job:
    """Steps in progress; without a tag of its own also those of the load and of an idle engine."""

    def __init__(self, engine, steps, tag="", max_new=0, prompt=0):
        self.engine, self.tag, self.max_new, self.prompt = engine, tag, max_new, prompt
        self.count, self.ended, self.stopping = 0, False, False
        self.wake = 0.0
        self.way = self.run(steps)

    def put(self, text):
        write_all(1, (self.tag + text + "\n").encode())

    def token(self, index):
        ids = self.engine.ids
        return f"T {ids[(self.max_new + index) % len(ids)]}"

    def done(self, finish):
        self.ended = True
        self.engine.open.discard(self.tag)
        log("sent", f"{self.tag}DONE {finish}")
        self.put(f"DONE {self.count} {self.prompt} 1 1 {finish}")

    def advance(self):
        """Up to the next wait; False at the end. A job that ends without DONE or ERR stays open, as a hung engine's does."""
        try:
            self.wake = time.monotonic() + next(self.way)
            return True
        except StopIteration:
            return False

    def run(self, steps):
        for step in steps:
            yield from getattr(self, "step_" + step[0])(*step[1:])

    def cancelled(self, delay):
        if delay:
            yield delay
        self.done("cancel")

    def step_tokens(self, number, every):
        while number > 0:
            many = 1 if every else min(number, 500)
            write_all(1, "".join(f"{self.tag}{self.token(self.count + i)}\n" for i in range(many)).encode())
            self.count += many
            number -= many
            yield every

    def step_answer(self, number, every):
        wanted = min(number, self.max_new)
        yield from self.step_tokens(wanted, every)
        self.done("length" if wanted == self.max_new else "stop")

    def step_done(self, finish):
        self.done(finish)
        yield 0

    def step_pp(self, number, every):
        for i in range(number):
            self.put(f"PP {i + 1} {number} 10 100")
            yield every

    def step_line(self, text):
        self.engine.said(self, text.lstrip("!"))
        if text.startswith("!"):
            write_all(1, (text[1:] + "\n").encode())
        else:
            self.put(text)
        yield 0

    def step_raw(self, data):
        write_all(1, data)
        yield 0

    def step_sleep(self, seconds):
        yield seconds

    def step_until(self, name):
        while not os.path.exists(f"{FOLDER}/{name}"):
            yield 0.01

    def step_mute(self):
        while True:
            yield 3600

    def step_burn(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            yield 0

    def step_die(self, number):
        log("dies", str(number))
        os.kill(os.getpid(), number)
        yield 60

    def step_half(self, text, number):
        write_all(1, text.encode())
        yield from self.step_die(number)

    def step_exit(self, status):
        log("exits", str(status))
        os._exit(status)
        yield 0

    def step_freeze(self):
        log("freezes")
        os.kill(os.getpid(), signal.SIGSTOP)
        yield 0

    def step_close_out(self):
        log("closes stdout")
        os.close(1)
        os.open("/dev/null", os.O_WRONLY)
        yield 0

    def step_grandchild(self):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execv("/bin/sleep", ["sleep", "3600"])
        yield 0

    def step_stderr(self, number):
        while number > 0:
            number -= os.write(2, (b"noise " * 20 + b"\n") * 64)
            yield 0


class Engine:
    def __init__(self, plan, start):
        self.plan, self.start = plan, start
        self.ids = plan.get("ids") or [3]
        self.tagged = False
        self.slots = 1
        self.jobs = []      # with steps to run
        self.by_tag = {}
        self.open = set()   # tags whose GEN has had no DONE, ERR or FATAL
        self.stopped = set()
        self.error_at = 0.0
        self.input = b""

    def run_until(self, finished):
        """Runs jobs and reads lines until finished() is true."""
        poller = select.poll()
        poller.register(0, select.POLLIN)
        while not finished():
            now = time.monotonic()
            wait = min((job.wake - now for job in self.jobs), default=3600)
            if poller.poll(max(0, wait) * 1000 if wait > 0.0005 else 0) and not self.take_input():
                poller.unregister(0)
            now = time.monotonic()
            self.jobs = [job for job in self.jobs if job.wake > now or job.advance()]

    def said(self, job, text):
        """A line of a plan's own that ends a request, or several."""
        if not text.startswith(("ERR", "FATAL", "DONE")):
            return
        log("sent", job.tag + text)
        ending = set(self.open) if text.startswith("FATAL") else {job.tag} & self.open
        if text.startswith("DONE"):
            if not self.tagged and not job.count and not text.startswith("DONE 0"):
                return  # a stray
            job.ended = True
        elif ending:
            job.ended = True
            self.error_at = time.monotonic()
        self.open -= ending

    def take_input(self):
        data = os.read(0, 1 << 20)
        if not data:
            log("eof")
            if not self.start["deaf"]:
                os._exit(0)
            return False
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            self.command(line.decode("utf-8", "replace"))
        return True

    def command(self, line):
        log("read", line)
        if line.startswith(("GEN ", "GENI ")):
            self.generate(line.split(" "))
        elif line.startswith("STOP"):
            self.stop(f"@{line[5:]} " if self.tagged else "")

    def generate(self, words):
        tag = next((f"@{word[4:]} " for word in words if word.startswith("req=")), "")
        if len(self.open) >= self.slots or bool(tag) != self.tagged or tag in self.open:
            log("violation", f"a GEN{tag and ' of ' + tag} while {sorted(self.open)} are open; slots {self.slots}, ids {self.tagged}")
        if not self.tagged and time.monotonic() - self.error_at < ERROR_S:  # with tags, one for another slot may have been on its way
            log("violation", "a GEN so soon after ERR")
        self.open.add(tag)
        self.stopped.discard(tag)
        number = next_number("jobs")
        steps = self.plan["jobs"][number] if number < len(self.plan["jobs"]) and not calm() else GOOD_JOB
        job = Job(self, steps, tag, int(words[1]), words[-1].count(",") + 1)
        self.by_tag[tag] = job
        self.jobs.append(job)

    def stop(self, tag):
        job = self.by_tag.get(tag)
        if job is None or tag in self.stopped or "stop" not in self.start["ready"].split(" "):
            log("violation", f"a second STOP, or one without GEN, or to an engine that knows none (tag '{tag}')")
        self.stopped.add(tag)
        how = self.start["on_stop"]
        if job is None or job.ended or job.stopping or how == "ignore":
            return
        if how == "die":
            job.way = job.step_die(signal.SIGKILL)
        else:
            job.way = job.cancelled(0 if how == "done" else how)
        job.stopping = True
        job.wake = 0
        if job not in self.jobs:
            self.jobs.append(job)


def main():
    with open(FOLDER + "/plan", encoding="utf-8") as file:
        plan = eval(file.read())  # a literal that the test wrote; importing ast costs more than all else here
    number = next_number("starts")
    start = plan["starts"][number] if number < len(plan["starts"]) and not calm() else GOOD_START
    log("start", os.environ.get("VIGIL_CHILD", ""))
    if start["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    engine = Engine(plan, start)
    loading = Job(engine, start["load"])
    engine.jobs.append(loading)
    engine.run_until(lambda: loading not in engine.jobs)
    if start["ready"] is None:
        engine.run_until(lambda: False)
    words = start["ready"].split(" ")
    engine.tagged = "ids" in words
    engine.slots = next((int(word[6:]) for word in words if word.startswith("slots=")), 1) if engine.tagged else 1
    log("sent", start["ready"])
    write_all(1, (start["ready"] + "\n").encode())
    beat = next((int(word[5:]) for word in words if word.startswith("beat=")), 0)
    if beat:
        engine.jobs.append(Beat(engine, beat / 1000))
    engine.jobs.append(Job(engine, start["idle"]))
    engine.run_until(lambda: False)


class Beat(Job):
    """BEAT lines while a request is open, as long as this process runs at all."""

    def __init__(self, engine, every):
        super().__init__(engine, [])
        self.way = self.beats(every)

    def beats(self, every):
        step = 0
        while True:
            if self.engine.open:
                step += 1
                self.put(f"BEAT step={step}")
            yield every


try:
    main()
except BrokenPipeError:
    log("epipe")  # the daemon closed its end: it is done with us
    sys.exit(0)
