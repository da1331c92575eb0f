"""One chaos run: a daemon, the clients and faults of its plan, then quiet, then every check. Nothing here chooses; chaos_plan.py does."""
import collections
import json
import os
import re
import shutil
import signal
import sys
import time

import procs
from chaos_client import Client, Line, Record, check_status, head_and_body, judge, judge_error
from chaos_plan import FLOOD_TOKENS, Spec
from client import await_until, check, pump

CHAOS_ENGINE = "chaos_engine.py"
SLACK_S = 10        # above the sum of limits, for a machine that others use too
OUTCOMES = ("served", "failed", "cancelled", "rejected")


def run_queue_s(pid):
    """How long this process's first thread has been ready to run without a processor."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class World:
    def __init__(self, case, plan, factor, usual):
        self.case, self.plan, self.factor, self.usual = case, plan, factor, usual
        self.daemon, self.clients = None, []
        self.slack = SLACK_S * factor
        self.records, self.by_id = [], {}
        self.deletions = []             # (record, line)
        self.stopped_s = 0.0            # how long the daemon was under SIGSTOP
        self.continue_at = self.file_back_at = None
        self.later = []                 # (at, function)
        self.extra = []                 # connections of faults
        self.orders = []                # (load or unload, connection)
        self.terminated_at = self.ended_at = None
        self.starved_s = self.starved_before_s = 0.0  # how long the daemon was ready to run and had no processor
        self.idle_ends = plan.config["http"]["idle_s"] < factor or "connections" in plan.config["http"]
        self.refuses_connections = "connections" in plan.config["http"]
        self.kill_expected = plan.end == "kill"

    # ---- what clients ask of it
    @property
    def port(self):
        return self.daemon.port

    def record(self, spec):
        record = Record(spec)
        self.records.append(record)
        return record

    def not_connected(self, error):
        check(self.terminated_at, "a connection was refused", error)

    def may_have_ended(self, line):
        check(not line.ended or self.idle_ends or self.terminated_at, "the daemon ended a connection that was in use")

    def delete(self, record):
        try:
            line = Line(self.port)
        except OSError as error:
            return self.not_connected(error)
        line.try_send(f"DELETE /v1/requests/{record.spec.id} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        self.deletions.append((record, line))

    # ---- the engine's folder
    def prepare(self):
        plan = self.plan
        self.daemon = self.case.daemon(CHAOS_ENGINE, engine=plan.config["engine"], config={k: v for k, v in plan.config.items() if k != "engine"}, wait=None)
        daemon = self.daemon
        with open(daemon.fake.path("plan"), "w", encoding="utf-8") as file:
            file.write(repr({"ids": self.case.letters.ids, "starts": plan.starts, "jobs": plan.jobs}))
        self.engine_file = os.path.join(daemon.folder, "engine")
        with open(self.engine_file, encoding="utf-8") as file:
            text = file.read()
        with open(self.engine_file, "w", encoding="utf-8") as file:  # a version manager's python3 starts ten times slower
            file.write(f"#!{os.path.realpath(sys.executable)} -SE\n" + text.partition("\n")[2])
        daemon.start()
        self.started = time.monotonic()

    def be_calm(self):
        open(self.daemon.fake.path("calm"), "w", encoding="ascii").close()
        if not os.path.exists(self.engine_file):
            os.rename(self.engine_file + ".away", self.engine_file)

    # ---- faults
    def engine_pids(self):
        return [pid for _, pid, _ in self.daemon.fake.log("start")[-1:] if os.path.exists(f"/proc/{pid}")]

    def signal_engine(self, number):
        for pid in self.engine_pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def befall(self, name, *args):
        now = time.monotonic()
        if self.terminated_at:
            return
        if name == "kill engine":
            self.signal_engine(signal.SIGKILL)
        elif name == "stop engine":
            self.signal_engine(signal.SIGSTOP)
        elif name == "stop and continue engine":
            self.signal_engine(signal.SIGSTOP)
            self.later.append((now + args[0], lambda: self.signal_engine(signal.SIGCONT)))
        elif name == "stop daemon" and self.continue_at is None:
            self.daemon.signal(signal.SIGSTOP)
            self.continue_at = now + args[0]
            self.stopped_s += args[0]
            self.later.append((self.continue_at, self.go_on))
        elif name == "reload":
            for section, values in args[0].items():
                self.daemon.config[section] = {**self.daemon.config[section], **values}
            self.daemon.write_config()
            self.daemon.signal(signal.SIGHUP)
        elif name == "broken reload":
            path = os.path.join(self.daemon.folder, "vigil.json")
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write('{"engine": {"ready_s": "soon"}, "prot": 1, ')
            os.rename(path + ".new", path)  # at once: an earlier signal must not read half a file
            self.daemon.signal(signal.SIGHUP)
        elif name == "reload storm":
            for _ in range(args[0]):
                self.daemon.signal(signal.SIGHUP)
        elif name == "no engine file" and os.path.exists(self.engine_file):
            os.rename(self.engine_file, self.engine_file + ".away")
            self.later.append((now + args[0], lambda: os.path.exists(self.engine_file) or os.rename(self.engine_file + ".away", self.engine_file)))
        elif name == "kill keeper":
            for pid in procs.marked(self.daemon.mark):
                with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                    if file.read() == "vigil-keeper\n":
                        os.kill(pid, signal.SIGKILL)
        elif name in ("load", "unload"):
            self.order(name)
        elif name == "idle connections":
            for _ in range(args[0]):
                self.extra.append(Line(self.port))

    def order(self, name):
        line = Line(self.port)
        line.try_send(f"POST /v1/{name} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        self.orders.append((name, line))
        return line

    def go_on(self):
        self.continue_at = None
        if self.daemon.process.poll() is None:
            self.daemon.signal(signal.SIGCONT)

    # ---- the run
    def bound_s(self):
        """Every wait of a request that exists when the faults end, one after the other; see docs/configuration.md for the keys."""
        engine, queue, http = (self.daemon.config[name] for name in ("engine", "queue", "http"))
        engines = max(engine["silence_s"], self.plan.config["engine"]["silence_s"]) * 2 + engine["stall_s"] + engine["cancel_s"] + engine["load_max_s"]
        ends = 2 * max(engine["stop_s"], self.plan.config["engine"]["stop_s"]) + 1 + engine["backoff_max_s"]
        scripts = 3.0  # the longest that a scripted answer takes without being silent
        clients = max((spec.after_s + spec.pause_s for client_plan in self.plan.clients for spec in client_plan.specs), default=0)
        clients += max((client_plan.gap_s * 5 for client_plan in self.plan.clients), default=0)
        waits = max(queue["wait_s"], self.plan.config["queue"]["wait_s"]) + 2 * http["write_s"] + http["header_s"] + http["body_s"] + (http["idle_s"] if self.idle_ends else 0)
        return engines + ends + scripts + clients + waits + self.stopped_s + self.slack

    def step(self, timeout):
        now = time.monotonic()
        for entry in [entry for entry in self.later if entry[0] <= now]:
            self.later.remove(entry)
            entry[1]()
        for each in self.clients:
            each.advance()
        pump(timeout)
        if self.terminated_at and not self.ended_at:
            if self.daemon.process.poll() is not None:
                self.ended_at = time.monotonic()
            else:
                self.starved_s = max(self.starved_s, run_queue_s(self.daemon.pid))  # 0 once it is a zombie

    def play(self):
        plan = self.plan
        self.clients = [Client(client_plan, self) for client_plan in plan.clients]
        self.later += [(self.started + at, lambda name=name, args=args: self.befall(name, *args)) for at, name, *args in plan.faults]
        calm_at = self.started + plan.calm_s
        self.later.append((calm_at, self.be_calm))
        if plan.end != "term":
            self.later.append((self.started + plan.end_at, self.end_early))
        limit = calm_at + self.bound_s()
        while not all(each.done for each in self.clients) or self.later:
            check(time.monotonic() < limit, f"every request ends within the sum of the limits ({self.bound_s():.1f} s after the faults)",
                  *[(each.plan.kind, each.line and each.line.ended, [s.id for s in each.plan.specs]) for each in self.clients if not each.done])
            self.step(0.01)
        await_until(lambda: all(line.ended or line.replies for _, line in self.deletions), self.slack, "each DELETE is answered")
        await_until(lambda: all(line.ended or line.replies for _, line in self.orders), self.bound_s(), "each load and unload is answered")

    def end_early(self):
        self.terminated_at = time.monotonic()
        self.starved_before_s = run_queue_s(self.daemon.pid)
        if self.continue_at is not None:
            self.go_on()
        self.daemon.signal(signal.SIGKILL if self.kill_expected else signal.SIGTERM)
        if self.plan.second_signal and not self.kill_expected:
            self.later.append((self.terminated_at + 0.1, lambda: self.daemon.process.poll() is None and self.daemon.signal(signal.SIGTERM)))

    # ---- checks
    def judge_all(self):
        for record in self.records:
            spec = record.spec
            if self.kill_expected and spec.version == "1.0" and spec.stream and record.reply and record.reply.status == 200:
                record.reply = None  # its end is the connection's, and that may have been the kill
            judge(record, self.case.letters)
            if record.reply or record.left or record.outcome == "none" or spec.act == "slow":
                continue
            if self.terminated_at and (self.kill_expected or record.sent_at is None or record.sent_at + 0.5 * self.factor + 2 * self.starved_before_s > self.terminated_at or
                                       self.stopped_s):
                continue  # it may have come too late for the daemon's last moments
            excused = self.idle_ends and (record.broken or "").endswith(("sent", "body", "before its reply"))
            check(excused or not record.broken, "a request that nobody gave up was left without its one answer", record.broken, spec)
        for name, line in self.orders:
            if not line.replies:
                check(self.terminated_at or self.idle_ends, f"a {name} without an answer", line.ended)
            elif line.replies[0].status != 200:
                code = judge_error(line.replies[0])
                check(code.startswith("engine_") or code in ("shutting_down", "queue_full"), f"a {name} that failed says why", line.replies[0].body)
        for record, line in self.deletions:
            if not line.replies:
                check(self.terminated_at or self.idle_ends, "a DELETE without an answer", line.ended)
                continue
            record.deleted = line.replies[0].status
            check(record.deleted in (200, 404) or (record.deleted == 429 and self.refuses_connections), "DELETE", line.replies[0].body)
            if record.deleted == 200 and record.reply:
                check(record.code == "request_cancelled", "what DELETE says it cancelled ends as cancelled", record.outcome, record.spec, record.reply.body[-300:])
        for record in self.records:
            if record.code == "request_cancelled":
                behind = record.spec.act == "slow" or record.spec.max_tokens >= FLOOD_TOKENS  # one that could not read as fast as it was told
                check(record.deleted == 200 or behind or (record.spec.act == "delete" and record.deleted is None), "nobody had cancelled this request", record.spec)

    def check_engine_log(self):
        violations = self.daemon.fake.log("violation")
        check(not violations, "the daemon broke the line protocol", violations, self.daemon.fake.log()[-40:])

    def check_totals(self, status):
        """What the daemon counted is what clients saw; only those who left may be counted either way."""
        totals = status["totals"]
        seen = collections.Counter(record.outcome for record in self.records)
        loose, maybe = seen["unknown"] + seen["maybe counted"], seen["maybe rejected"]
        for name, extra in (("served", 0), ("failed", maybe), ("cancelled", 0), ("rejected", maybe)):
            check(seen[name] <= totals[name] <= seen[name] + extra + loose, f"totals.{name} fits what clients saw", totals, seen)
        sure = sum(seen[name] for name in ("served", "failed", "cancelled", "maybe rejected"))
        check(sure <= sum(totals.values()) <= sure + loose, "the sum of the totals", totals, seen)

    def answered_chat(self):
        """Plain chats until one is answered; refusals on the way are judged and counted like all others."""
        end = time.monotonic() + self.bound_s()
        while True:
            spec = Spec(f"last-{len(self.records)}", "/v1/chat/completions", False, 4, f"are you well? {len(self.records)}")
            record, line = self.record(spec), Line(self.port)
            line.try_send(b"".join(head_and_body(spec)))
            await_until(lambda: line.replies or line.ended, self.bound_s(), "a plain chat is answered")
            line.close()
            record.reply = line.replies[0] if line.replies else None
            judge(record, self.case.letters)
            if record.outcome == "served":
                return
            check(record.reply and record.reply.status in (429, 503), "a plain chat is served, or refused for now", record.reply and record.reply.body)
            check(time.monotonic() < end, "a plain chat works again", record.reply.body)
            wait_until = time.monotonic() + 0.05
            await_until(lambda: time.monotonic() >= wait_until, 1, "a moment", 0.02)

    def await_admission(self):
        """With few connections allowed, until the daemon has seen that the clients are gone."""
        await_until(lambda: self.daemon.get("/status", self.slack).status == 200, self.bound_s(), "the daemon is free for a connection", 0.02)

    def gauges(self):
        text = bytes(self.daemon.get("/metrics", self.slack).body).decode()
        found = {}
        for line in text.splitlines():
            match = re.match(r'(vigil_requests_running|vigil_requests_queued|vigil_requests_total\{outcome="\w+"\}) (\S+)', line)
            if match:
                found[match.group(1)] = float(match.group(2))
        return found

    def close_clients(self):
        for each in self.clients:
            if each.line:
                each.line.close()
        for _, line in self.deletions:
            line.close()
        for line in self.extra + [line for _, line in self.orders]:
            line.close()

    def descriptors(self):
        return sorted(name.replace(self.daemon.folder, "") for name in procs.descriptors(self.daemon.pid))

    def check_quiet(self):
        """After the clients: idle, counted, nothing leaked; then TERM."""
        daemon = self.daemon
        self.close_clients()
        self.await_admission()
        self.answered_chat()
        await_until(lambda: daemon.idle(daemon.status()), self.bound_s(), f"idle: {daemon.status()}", 0.02)
        status = daemon.status()
        check_status(status)
        self.check_totals(status)
        gauges = self.gauges()
        check(gauges["vigil_requests_running"] == gauges["vigil_requests_queued"] == 0, "gauges are 0", gauges)
        for name in OUTCOMES:
            check(gauges[f'vigil_requests_total{{outcome="{name}"}}'] == status["totals"][name], "metrics and status count alike", gauges, status["totals"])
        unload = self.order("unload")
        await_until(lambda: unload.replies, self.bound_s(), "it is unloaded")
        check(unload.replies[0].status == 200 and daemon.status()["engine"]["state"] == "unloaded", "it is unloaded", unload.replies[0].body, daemon.status())
        unload.close()
        usual = sorted(self.usual + (["/engine.log"] if "log" in self.plan.config["engine"] else []))
        await_until(lambda: self.descriptors() == usual, 8 + self.slack, lambda: f"descriptors back: {self.descriptors()}, usual {usual}", 0.05)
        check(not procs.zombies_of(daemon.pid), "no zombie", procs.zombies_of(daemon.pid))
        check(not daemon.children(), "no process of any engine", daemon.children())

    def end(self):
        daemon, plan = self.daemon, self.plan
        if plan.end == "term":
            self.terminated_at = time.monotonic()
            self.starved_before_s = run_queue_s(daemon.pid)
            daemon.signal(signal.SIGTERM)
        limit = max(daemon.config["engine"]["stop_s"], plan.config["engine"]["stop_s"]) + 1 + 2 * self.factor
        if plan.end != "term":
            limit += plan.config["drain_s"] + self.stopped_s
        starved = lambda: 2 * max(0.0, self.starved_s - self.starved_before_s)  # noqa: E731 (its children and we wait as well)
        while not self.ended_at:
            check(time.monotonic() < self.terminated_at + limit + starved(), f"the daemon ends within {limit:.1f} s", starved(), daemon.stderr()[-1500:])
            self.step(0.005)
        took = self.ended_at - self.terminated_at
        check(took <= limit + starved(), f"the daemon ends within {limit:.1f} s", took, starved())
        status = daemon.process.returncode
        check(status == (-signal.SIGKILL if self.kill_expected else 0), f"exit status {status}", daemon.stderr()[-1500:])
        await_until(lambda: not daemon.everything(), 2 + 2 * self.factor, lambda: f"nothing is left: {daemon.everything()}", 0.02)

    def count(self):
        """What this run has exercised, for the sum over all runs."""
        found = collections.Counter({f"ends: {self.plan.end}": 1})
        for record in self.records:
            found[f"requests: {record.outcome}"] += 1
            if record.code:
                found[f"errors: {record.code}"] += 1
        for what in ("start", "read", "dies", "exits", "freezes", "term"):
            found[f"engines: {what}"] += len(self.daemon.fake.log(what))
        found["engines: GEN"] += len(self.daemon.fake.generations())
        found["engines: STOP"] += len(self.daemon.fake.stops())
        for _, name, *_ in self.plan.faults:
            found[f"faults: {name}"] += 1
        return found


def run(case, plan, factor, usual):
    """Returns the world for its numbers; a Failure when anything was wrong. The daemon is gone afterwards in any case."""
    world = World(case, plan, factor, usual)
    try:
        world.prepare()
        world.play()
        world.judge_all()
        world.check_engine_log()
        if plan.end == "term":
            world.check_quiet()
            world.check_engine_log()
        world.end()
        world.daemon.check_log()
        world.numbers = world.count()
        return world
    except BaseException as error:
        error.world = world
        raise
    finally:
        world.close_clients()
        if world.daemon:
            world.go_on()
            world.daemon.destroy()
            case.daemons.remove(world.daemon)


def clean_daemon_descriptors(case):
    """What a daemon holds after one chat, with its engine unloaded again."""
    daemon = case.daemon(CHAOS_ENGINE, wait=None)
    with open(daemon.fake.path("plan"), "w", encoding="utf-8") as file:
        file.write(repr({"ids": case.letters.ids, "starts": [], "jobs": []}))
    daemon.start()
    daemon.chat_until_answered()
    await_until(lambda: daemon.idle(daemon.status()), 10, "idle")
    check(daemon.request("POST", "/v1/unload").wait_end().status == 200, "it is unloaded")
    daemon.conns.pop().close()
    await_until(lambda: procs.descriptors(daemon.pid).count("socket") == 1, 10, "the listener alone")
    found = sorted(name.replace(daemon.folder, "") for name in procs.descriptors(daemon.pid))
    daemon.stop(10)
    daemon.destroy()
    case.daemons.remove(daemon)
    shutil.rmtree(daemon.folder)
    return found
