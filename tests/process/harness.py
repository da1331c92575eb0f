"""Starts the daemon with children from tests/fakes in a temporary folder, and checks after a case that it is as well as before it
(Daemon.alive) and that it goes without leaving anything (Daemon.stop). Python's standard library only."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

import procs
from client import SCALE, Conn, Failure, await_until, check, run_for
from vocabulary import Letters

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FAKES = os.path.join(SOURCE, "tests", "fakes")
MODEL = os.path.join(SOURCE, "tests", "models", "random.gguf")  # of tools/make_model: it rambles, and has a token for every byte
SANITIZED = re.compile(r"ERROR: AddressSanitizer|ERROR: LeakSanitizer|WARNING: ThreadSanitizer|runtime error:")
GOOD = {"jobs": [[["answer", 3, 0]]]}


def clean_environment():
    dropped = ("VIGIL_", "NOTIFY_SOCKET", "LISTEN_", "WATCHDOG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


class Fake:
    """The folder that a fake engine reads its script from and writes its log to."""

    def __init__(self, folder, letters):
        self.folder, self.letters = folder, letters
        os.makedirs(folder, exist_ok=True)
        self.script()

    def path(self, name):
        return os.path.join(self.folder, name)

    def script(self, **fields):
        """From now on (the next start, the next GEN) the engine does this; see fake_engine.py."""
        if os.path.exists(self.path("jobs")):
            os.unlink(self.path("jobs"))
        with open(self.path("script.new"), "w", encoding="utf-8") as file:
            json.dump({"ids": self.letters.ids, **fields}, file)
        os.rename(self.path("script.new"), self.path("script.json"))

    def log(self, what="", text=""):
        """(time, pid, text) of the log's lines of kind `what` whose text starts so."""
        try:
            with open(self.path("log"), encoding="utf-8") as file:
                lines = [line.rstrip("\n").split(" ", 3) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []
        return [(float(line[0]), int(line[1]), line[3]) for line in lines if (not what or line[2] == what) and line[3].startswith(text)]

    def generations(self):
        return self.log("read", "GEN")

    def stops(self):
        return self.log("read", "STOP")

    @property
    def starts(self):
        return len(self.log("start"))


class Case:
    """What one test owns. `bin` is the folder with vigil and vigil-engine."""

    def __init__(self, bin_folder):
        self.bin = os.path.abspath(bin_folder)
        self.folder = tempfile.mkdtemp(prefix="vigil-test-")
        self.daemons = []
        self.letters = Letters(MODEL)

    def vigil(self, *args, env=None, limit_s=20, cwd=None):
        """Runs a command to its end."""
        return subprocess.run([os.path.join(self.bin, "vigil"), *args], env={**clean_environment(), **(env or {})}, cwd=cwd or self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s * SCALE, check=False)

    def daemon(self, exe="fake_engine.py", **options):
        daemon = Daemon(self, exe, **options)
        self.daemons.append(daemon)
        return daemon

    def close(self, failed):
        """Ends what the test left; a test that passed may have left only running daemons, which must stop cleanly."""
        try:
            for daemon in self.daemons:
                if not failed and daemon.process.poll() is None:
                    daemon.stop()
                daemon.check_log()
        finally:
            for daemon in self.daemons:
                daemon.destroy()
            if not failed:
                shutil.rmtree(self.folder, ignore_errors=True)


class Daemon:
    def __init__(self, case, exe, engine=None, config=None, env=None, args=(), port=0, wait=True, prefix=(), pass_fds=()):
        self.case = case
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="daemon-", dir=case.folder)
        self.fake = Fake(os.path.join(self.folder, "fake"), case.letters)
        self.conns = []
        self.log_path = os.path.join(self.folder, "stderr")
        settings = {"start": "lazy", "stop_s": 3, "backoff_first_ms": 100, "backoff_max_s": 1}
        if exe:  # None: the real engine
            self.swap(exe)
            settings["exe"] = "./engine"
        settings.update(engine or {})
        self.options = dict(engine=engine, config=config)
        self.config = {"port": port, "model": MODEL, **(config or {}), "engine": settings}
        self.stop_s, self.drain_s = settings["stop_s"], self.config.get("drain_s", 30)
        self.write_config()
        self.argv = [*prefix, os.path.join(case.bin, "vigil"), "serve", "--config", os.path.join(self.folder, "vigil.json"), *args]
        self.env = {**clean_environment(), procs.MARK: self.mark, "FAKE_DIR": self.fake.folder, **(env or {})}
        self.pass_fds = pass_fds
        self.port = None
        if wait is not None:
            self.start(wait)

    # ---- before and around
    def write_config(self):
        with open(os.path.join(self.folder, "vigil.new"), "w", encoding="utf-8") as file:
            json.dump(self.config, file)
        os.rename(os.path.join(self.folder, "vigil.new"), os.path.join(self.folder, "vigil.json"))

    def swap(self, exe):
        """The engine's file is from the next start on this one of tests/fakes, to the byte."""
        self.put(exe, "engine")
        if exe == "backgrounding_wrapper.sh":
            self.put("mute.sh", "mute.sh")  # what it starts, looked for beside it

    def put(self, exe, name):
        path = os.path.join(self.folder, name)
        shutil.copy(exe if os.path.isabs(exe) else os.path.join(FAKES, exe), path + ".new")
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def start(self, wait=True):
        self.log_file = open(self.log_path, "ab")
        self.started_at = time.monotonic()
        self.process = subprocess.Popen(self.argv, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log_file, pass_fds=self.pass_fds)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.stdout = b""
        if wait:
            await_until(self.listening, 15 * SCALE, "a line that says where it listens")

    def listening(self):
        self.stdout += self.process.stdout.read() or b""
        line = re.match(rb"vigil listening on http://([0-9.]+|\[[0-9a-f:]+\]):(\d+)\n", self.stdout)
        if line:
            self.port = int(line.group(2))
        elif self.process.poll() is not None:
            raise Failure(f"the daemon ended with {self.process.returncode} before it listened\n{self.stderr()}")
        return line

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def check_log(self):
        found = SANITIZED.search(self.stderr())
        check(not found, "a sanitizer found something", found and self.stderr()[found.start():found.start() + 3000])

    # ---- talking to it
    def connect(self, **options):
        conn = Conn(self.port, **options)
        self.conns.append(conn)
        return conn

    def request(self, method, path, body=None, headers=None, **options):
        return self.connect(**options).request(method, path, body, headers)

    def get(self, path, limit_s=5):
        conn = self.request("GET", path).wait_end(limit_s * SCALE)
        conn.close()
        self.conns.remove(conn)
        return conn

    def chat(self, stream=False, text="hi", headers=None, **fields):
        body = {"messages": [{"role": "user", "content": text}], "max_tokens": 64, **fields}
        return self.request("POST", "/v1/chat/completions", {**body, "stream": True} if stream else body, headers)

    def status(self):
        return self.get("/status").json()

    def metric(self, name, **labels):
        """Sum of the samples of a metric whose labels include these; 0 when it has none."""
        total = 0.0
        for line in bytes(self.get("/metrics").body).decode().splitlines():
            match = re.match(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match.group(1) == name:
                found = dict(re.findall(r'(\w+)="([^"]*)"', match.group(2) or ""))
                if all(found.get(key) == value for key, value in labels.items()):
                    total += float(match.group(3))
        return total

    def await_engine(self, state, limit_s=10):
        return await_until(lambda: (s := self.status())["engine"]["state"] == state and s, limit_s * SCALE, f"engine state {state}", 0.02)

    def await_requests(self, limit_s=5, **wanted):
        """Until /status requests shows these numbers, for example running=1, queued=2."""
        def matches():
            found = self.status()["requests"]
            return all(found[key] == value for key, value in wanted.items()) and found
        return await_until(matches, limit_s * SCALE, f"requests {wanted}", 0.01)

    # ---- its children
    def children(self):
        """Engines of this daemon, living ones, with all descendants: pid -> environment. The daemon and its keeper carry no VIGIL_CHILD."""
        return {pid: variables for pid, variables in procs.marked(self.mark).items() if "VIGIL_CHILD" in variables}

    def everything(self):
        return {pid: procs.command(pid) for pid in procs.marked(self.mark)}

    def await_no_children(self, limit_s):
        await_until(lambda: not self.children(), limit_s, f"no child is left, but {[procs.command(p) for p in self.children()]}", 0.02)

    # ---- afterwards
    def alive(self, fake=True):
        """Health 200, a plain chat is answered by a (new) good engine, nothing is open, no child too many, no zombie, no descriptor more."""
        for conn in self.conns:
            conn.close()
        self.conns.clear()
        check(self.get("/health").status == 200, "health")
        if fake:
            self.fake.script(**GOOD)
            self.swap("fake_engine.py")
        self.chat_until_answered()
        await_until(lambda: self.idle(self.status()), 3 * SCALE, f"gauges back: {self.status()}", 0.02)
        generation = self.status()["engine"]["generation"]

        def only_this_generation():
            zombies = procs.zombies_of(self.pid)
            late = [v["VIGIL_CHILD"] for v in self.children().values() if not v["VIGIL_CHILD"].endswith(f".engine.{generation}")]
            return not zombies and not late
        await_until(only_this_generation, 3 * SCALE, f"no leftover and no zombie of {self.everything()} {procs.zombies_of(self.pid)}", 0.02)
        usual = self.usual_descriptors()
        await_until(lambda: len(procs.descriptors(self.pid)) <= len(usual), 3 * SCALE,
                    f"descriptors back: {procs.descriptors(self.pid)}, usual {usual}", 0.05)

    def chat_until_answered(self, limit_s=15):
        """A plain chat; an engine that is blocked from starting, or that is on its way out, may refuse it for a while."""
        end = time.monotonic() + limit_s * SCALE
        while True:
            reply = self.chat(max_tokens=4, text="are you well?").wait_end(limit_s * SCALE)
            self.conns.pop().close()
            if reply.status == 200:
                return reply
            check(reply.status == 503 and "retry-after" in reply.headers, "a plain chat", reply.status, reply.headers, bytes(reply.body))
            check(time.monotonic() < end, "a plain chat works again", bytes(reply.body))
            run_for(0.1)

    @staticmethod
    def idle(status):
        requests = status["requests"]
        return not (requests["running"] or requests["queued"] or requests["loading"] or status["active"])

    def usual_descriptors(self):
        """Of a fresh daemon of the same configuration after one good chat."""
        other = Daemon(self.case, os.path.join(FAKES, "fake_engine.py") if "exe" in self.config["engine"] else None, **self.options)
        try:
            other.chat_until_answered()
            await_until(lambda: self.idle(other.status()), 3 * SCALE, "idle")
            return procs.descriptors(other.pid)
        finally:
            other.destroy()

    # ---- the end
    def signal(self, number):
        os.kill(self.pid, number)

    def await_exit(self, limit_s):
        await_until(lambda: self.process.poll() is not None, limit_s, "the daemon has ended", 0.005)
        return self.process.returncode

    def stop(self, limit_s=None):
        """TERM: exit 0 within stop_s + 1 s when nothing runs, and nothing of it is left."""
        self.signal(signal.SIGTERM)
        status = self.await_exit(limit_s or self.stop_s + SCALE)
        check(status == 0, f"exit status {status} after TERM", self.stderr()[-2000:])
        await_until(lambda: not self.everything(), 2, f"nothing is left: {self.everything()}", 0.02)

    def destroy(self):
        for conn in self.conns:
            conn.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log_file.close()
        for pid in procs.marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def check_error(conn, status, code, *words):
    """A plain error reply: status, JSON, code, each word in the message; 503 and 429 say when to retry."""
    check(conn.status == status, f"status {status}", conn.status, bytes(conn.body)[:1000])
    check(conn.headers.get("content-type", "").startswith("application/json"), "a JSON error", conn.headers)
    error = conn.json()["error"]
    check(error["code"] == code, f"code {code}", error)
    for word in words:
        check(word in error["message"], f"{word!r} in the message", error)
    check(conn.headers.get("x-request-id"), "X-Request-Id", conn.headers)
    if status in (429, 503):
        check("retry-after" in conn.headers, "Retry-After", conn.headers)
    if code in ("engine_not_ready", "engine_silent"):
        check(conn.headers.get("x-should-retry") == "false", "x-should-retry: false", conn.headers)
    return error


def check_stream_error(conn, deltas, status, code, *words):
    """A stream that failed: the deltas, exactly one error event as the last one, a whole body, no [DONE], no finish_reason."""
    check(conn.status == 200 and conn.complete, "a whole chunked body", conn.status, conn.ended, conn.events)
    check(len(conn.deltas) == deltas, f"{deltas} deltas", conn.deltas, conn.events)
    check(len(conn.stream_errors) == 1 and "error" in conn.data[-1], "one error, as the last event", conn.events)
    error = conn.stream_errors[0]
    check(error["code"] == code and error["status"] == status, f"code {code}, status {status}", error)
    for word in words:
        check(word in error["message"], f"{word!r} in the message", error)
    check(not conn.said_done and not conn.finish_reasons, "no [DONE] and no finish_reason", conn.events)
    return error


def check_answer(conn, text, finish=None):
    """A finished answer, plain or streamed, with exactly this text."""
    check(conn.status == 200 and conn.complete, "200 and whole", conn.status, bytes(conn.body)[:1000])
    if "text/event-stream" in conn.headers["content-type"]:
        check(conn.said_done and not conn.stream_errors and len(conn.finish_reasons) == 1, "a stream that ended well", conn.events)
        found, reason = "".join(conn.deltas), conn.finish_reasons[0]
    else:
        found, reason = conn.text(), conn.json()["choices"][0]["finish_reason"]
    check(found == text, "the text", found, text)
    check(finish is None or reason == finish, f"finish_reason {finish}", reason)
