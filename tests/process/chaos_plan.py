"""A seed to the plan of one daemon's life: configuration, what its engines do, what its clients do, what befalls them, how it ends. All choices
are made here, so that a seed repeats them; only the machine's timing differs from run to run. Nothing here runs anything."""
import dataclasses
import random
import signal

ENDS = ["term"] * 14 + ["term busy"] * 4 + ["kill"] * 2
SIGABRT, SIGKILL, SIGSEGV = int(signal.SIGABRT), int(signal.SIGKILL), int(signal.SIGSEGV)  # a plan is written down as a literal
FLOOD_TOKENS = 3000  # an answer that may fill every buffer on its way
SMALL_CONTEXT = 600  # of some engines: requests that are surely below it keep their own max_new
ROUTES = ["/v1/chat/completions"] * 3 + ["/v1/completions"]


@dataclasses.dataclass
class Spec:
    """One request. `id` is its X-Request-Id; what it does beside staying stands in `act`, `after_s` later."""
    id: str
    path: str
    stream: bool
    max_tokens: int
    text: str
    act: str = "stay"          # stay close reset half slow delete
    after_s: float = 0.0
    at_delta: bool = False     # count `after_s` from the first bytes of the answer
    pause_s: float = 0.0       # slow: reads nothing for so long
    version: str = "1.1"
    expect: bool = False       # Expect: 100-continue
    usage: bool = False

    def body(self):
        fields = {"max_tokens": self.max_tokens, "stream": self.stream}
        if self.usage:
            fields["stream_options"] = {"include_usage": True}
        if self.path.endswith("chat/completions"):
            return {"messages": [{"role": "user", "content": self.text}], **fields}
        return {"prompt": self.text, **fields}


@dataclasses.dataclass
class ClientPlan:
    at: float
    kind: str                  # requests, pipeline, cut, garbage, look, idle
    specs: list = dataclasses.field(default_factory=list)
    gap_s: float = 0.0         # between the requests of a kept connection
    cut: str = ""              # cut: "head" or "body" that stays short
    then: str = "close"        # cut: close, reset, half, wait
    after_s: float = 0.0
    data: bytes = b""          # garbage


@dataclasses.dataclass
class Plan:
    seed: int
    config: dict
    starts: list
    jobs: list
    clients: list
    faults: list               # (at, name, arguments...)
    calm_s: float              # faults end here
    end: str
    end_at: float              # for "term busy" and "kill"
    second_signal: bool = False


class Maker:
    def __init__(self, seed, factor):
        self.random = random.Random(f"vigil chaos {seed}")
        self.seed, self.factor = seed, factor
        self.prompts = 0

    def between(self, low, high):
        return round(self.random.uniform(low, high), 3)

    def limit(self, low, high):
        return round(self.random.uniform(low, high) * self.factor, 3)

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *weighted):
        """pick((weight, value), ...)"""
        values = [value for _, value in weighted]
        return self.random.choices(values, [weight for weight, _ in weighted])[0]

    # ---- configuration
    def config(self):
        engine = {"start": self.random.choice(["lazy", "eager"]), "exec_s": self.limit(2, 3), "ready_s": self.limit(0.8, 1.6),
                  "load_max_s": self.limit(1.6, 2.5), "silence_s": self.limit(1, 2), "stall_s": self.limit(0.7, 1.5), "step_s": self.limit(0.5, 1),
                  "cancel_s": self.limit(0.3, 1), "stop_s": self.pick((1, 0), (9, self.limit(0.2, 0.8))),
                  "backoff_first_ms": self.random.randint(10, 150), "backoff_max_s": self.between(0.1, 0.5)}
        if self.chance(0.2):
            engine["log"] = "engine.log"
        if self.chance(0.1):
            engine["idle_unload_s"] = self.limit(0.1, 0.5)
        if self.chance(0.1):
            engine["repeat_stop_tokens"] = 2  # answers cycle through ids: it never strikes, its guard runs
        config = {"engine": engine, "drain_s": self.limit(0.3, 1.2),
                  "queue": {"limit": self.pick((6, self.random.randint(1, 4)), (4, 64)), "wait_s": self.limit(0.3, 3), "warn_s": self.limit(0.2, 2)},
                  "http": {"header_s": self.limit(0.6, 1.2), "body_s": self.limit(0.6, 1.2), "write_s": self.limit(0.6, 1), "write_buffer_bytes": 65536,
                           "commit_s": self.pick((1, 0), (5, self.limit(0.05, 0.8))), "keepalive_s": self.limit(0.05, 0.6), "idle_s": 30 * self.factor}}
        if self.chance(0.1):
            config["http"]["connections"] = self.random.randint(3, 8)
        if self.chance(0.1):
            config["http"]["idle_s"] = self.limit(0.2, 0.5)
        return config

    # ---- engines
    def ready(self):
        return self.pick((8, "READY 32768 stop"), (3, "READY 32768"), (5, f"READY 32768 stop ids slots={self.random.randint(2, 4)}"),
                         (1, "READY 32768 stop beat=150"), (1, "READY 32768 stop ids slots=2 beat=200"), (1, "READY 4096 stop gpu"),
                         (1, f"READY {SMALL_CONTEXT} stop"))

    def load(self):
        slow = [("sleep", self.between(0.05, 0.6))]
        growing = [step for i in range(self.random.randint(2, 5)) for step in (("line", f"INFO load=0.{i + 1}"), ("sleep", self.between(0.05, 0.4)))]
        return self.pick(
            (30, ([], "ready")), (6, (slow, "ready")), (3, (growing, "ready")), (2, (slow, None)), (1, (growing, None)),
            (1, ([("burn", 60)], None)), (2, ([("exit", self.random.choice([0, 1, 3]))], None)), (1, (slow + [("die", SIGSEGV)], None)),
            (1, ([("line", "ERR no memory for the model"), ("sleep", 60)], None)), (1, ([("line", "FATAL the model is broken"), ("exit", 2)], None)),
            (1, ([("raw", b"\x00\xff not a line of the protocol\r\nREADY\n")], "ready")), (1, ([("close_out",), ("sleep", 60)], None)),
            (1, ([("grandchild",), ("exit", 1)], None)), (1, ([("grandchild",)], "ready")), (1, ([("stderr", 1 << 20)], "ready")),
            (1, ([("raw", b"INFO half a li"), ("die", SIGKILL)], None)), (1, ([("freeze",)], "ready")))

    def start(self):
        steps, ready = self.load()
        idle = self.pick((16, []), (1, [("sleep", self.between(0, 1)), ("die", SIGKILL)]), (1, [("sleep", self.between(0, 1)), ("close_out",)]),
                         (1, [("line", "!INFO kv=3"), ("raw", b"nonsense\n@9999 T 5\n")]), (1, [("stderr", 1 << 19)]),
                         (1, [("sleep", self.between(0, 0.5)), ("exit", 0)]))
        on_stop = self.pick((12, "done"), (3, self.between(0.02, 0.4)), (2, "ignore"), (1, "die"))
        return {"load": steps, "ready": self.ready() if ready else None, "idle": idle, "on_stop": on_stop, "deaf": self.chance(0.15)}

    def job(self):
        n = self.random.randint(1, 40)
        some = [("tokens", self.random.randint(1, 6), self.between(0, 0.03))]
        few = self.pick((1, []), (2, some))
        return self.pick(
            (10, [("answer", n, self.between(0, 0.03))]), (18, [("answer", 40, self.between(0.02, 0.07))]),
            (6, [("pp", self.random.randint(1, 10), self.between(0.01, 0.15)), ("answer", n, 0.005)]),
            (3, [("answer", 6000, 0)]), (2, [("answer", 400, 0)]), (2, [("answer", 1000, 0.002)]), (2, few + [("mute",)]), (1, [("freeze",)]), (1, few + [("burn", 60)]),
            (3, few + [("die", self.random.choice([SIGKILL, SIGSEGV, SIGABRT]))]), (2, few + [("exit", self.random.choice([0, 1, 7]))]),
            (2, few + [("line", "ERR out of memory")]), (1, few + [("line", "ERR broken"), ("exit", 4)]), (1, few + [("line", "ERR"), ("sleep", 0.1), ("die", 11)]),
            (1, few + [("line", "FATAL lost the device"), ("sleep", self.between(0, 0.4)), ("exit", 1)]),
            (1, few + [("raw", b"\xff\xfe\x00garbage\nT notanumber\nPP\n@ \n@x T 5\nDONE\n")] + [("answer", n, 0)]),
            (1, few + [("raw", b"y" * (100 << 10) + b"\n"), ("answer", n, 0)]), (1, few + [("half", "T 5", SIGKILL)]),
            (1, [("line", "DONE 7 5 1 1 cancel"), ("answer", n, 0.01)]), (1, [("line", "DONE 0 5 1 1 stop")]), (2, [("tokens", 100, 0.01), ("mute",)]),
            (1, few + [("close_out",), ("mute",)]), (1, few + [("grandchild",), ("die", SIGKILL)]), (1, few + [("stderr", 1 << 20), ("answer", n, 0)]),
            (1, few + [("done", "cancel")]), (1, [("line", "SWAIT disk 1"), ("sleep", self.between(0.1, 0.8)), ("answer", n, 0)]),
            (1, [("line", "RESUME 3"), ("answer", n, 0)]), (1, few + [("sleep", self.between(0.1, 0.9)), ("answer", n, 0)]))

    # ---- clients
    def spec(self, name):
        self.prompts += 1
        text = self.pick((12, f"prompt {self.seed} {self.prompts}"), (1, "the same"), (1, "long " * self.random.randint(10, 100)), (1, "worker " * 4000))
        stream = self.chance(0.6)
        act = self.pick((9, "stay"), (4, "close"), (4, "reset"), (2, "half"), (2 if stream else 0, "slow"), (2, "delete"))
        flood = act == "slow" or self.chance(0.1)
        some = self.pick((1, self.random.randint(1, 60)), (2, self.random.randint(25, 60)))
        return Spec(name, self.random.choice(ROUTES), stream, self.random.randint(FLOOD_TOKENS, 6000) if flood else some, text, act,
                    self.pick((3, 0), (5, self.between(0, 0.15)), (3, self.between(0, 1.2))), self.chance(0.5), self.between(0.1, 2),
                    "1.0" if self.chance(0.04) else "1.1", self.chance(0.04), self.chance(0.2))

    def specs(self, index, number):
        return [self.spec(f"s{self.seed}-c{index}-{i}") for i in range(number)]

    def client(self, index, until):
        at = self.pick((2, 0), (3, self.between(0, until)))
        kind = self.pick((9, "requests"), (4, "kept"), (2, "pipeline"), (2, "cut"), (1, "garbage"), (2, "look"), (1, "idle"))
        if kind == "requests":
            return ClientPlan(at, kind, self.specs(index, 1))
        if kind == "kept":
            specs = self.specs(index, self.random.randint(2, 5))
            for spec in specs[:-1]:
                spec.act, spec.version = self.pick((4, "stay"), (1, "delete")), "1.1"
            return ClientPlan(at, "requests", specs, self.pick((1, 0), (1, self.between(0, 0.3))))
        if kind == "pipeline":
            specs = self.specs(index, self.random.randint(2, 4))
            for spec in specs:
                spec.act, spec.version, spec.expect = "stay", "1.1", False
            specs[0].act = self.pick((3, "stay"), (1, "close"), (1, "reset"))
            return ClientPlan(at, kind, specs)
        if kind == "cut":
            return ClientPlan(at, kind, self.specs(index, 1), cut=self.random.choice(["head", "body"]), after_s=self.between(0, 0.3),
                              then=self.random.choice(["close", "reset", "half", "wait"]))
        if kind == "garbage":
            return ClientPlan(at, kind, data=self.pick((1, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n"), (1, b"GET / HTTP/9.9\r\n\r\n"),
                                                       (1, b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -4\r\n\r\n"),
                                                       (1, b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")))
        return ClientPlan(at, kind, after_s=self.between(0.1, 0.6))

    # ---- what befalls them
    def fault(self, until):
        at = self.between(0.02, until)
        name = self.pick((4, "kill engine"), (2, "stop engine"), (2, "stop and continue engine"), (2, "reload"), (1, "broken reload"),
                         (1, "reload storm"), (2, "stop daemon"), (1, "no engine file"), (1, "kill keeper"), (2, "unload"), (1, "load"), (1, "idle connections"))
        if name == "stop daemon":
            return (at, name, self.pick((2, self.between(0.02, 0.3)), (1, self.between(0.3, 1.5))))
        if name in ("stop and continue engine", "no engine file"):
            return (at, name, self.between(0.05, 0.8))
        if name == "reload":
            return (at, name, {"queue": {"limit": self.random.randint(1, 8), "wait_s": self.limit(0.3, 3)},
                               "engine": {"silence_s": self.limit(1, 2), "stop_s": self.limit(0.1, 0.8), "env": {"CHAOS": str(self.random.random())}}})
        if name in ("reload storm", "idle connections"):
            return (at, name, self.random.randint(5, 30))
        return (at, name)

    def plan(self):
        config = self.config()
        calm = self.between(0.8, 2.2)
        end = self.random.choice(ENDS)
        return Plan(self.seed, config, [self.start() for _ in range(30)], [self.job() for _ in range(80)],
                    [self.client(i, calm) for i in range(self.random.randint(3, 12))],
                    sorted((self.fault(calm) for _ in range(self.random.randint(0, 5))), key=lambda fault: fault[0]),
                    calm, end, self.between(0.2, calm), self.chance(0.3))


def make(seed, factor=1.0):
    return Maker(seed, factor).plan()
