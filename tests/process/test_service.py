"""The daemon as a service: what it tells systemd's notify socket, and sockets that it is given."""
import os
import selectors
import shutil
import signal
import socket
import time

from client import SCALE, SELECTOR, Failure, await_until, check, run_for
from harness import check_answer
from registry import test


class NotifySocket:
    """Receives what a service manager would: messages with their times."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind(self.path)
        self.messages = []
        SELECTOR.register(self.socket, selectors.EVENT_READ, self.on_readable)

    def on_readable(self):
        text = self.socket.recv(65536).decode()
        self.messages += [(time.monotonic(), line) for line in text.splitlines()]

    def said(self, start):
        return [(at, text) for at, text in self.messages if text.startswith(start)]


@test("notify_socket_hears_the_whole_life")
def life(case):
    notify = NotifySocket(case.folder)
    daemon = case.daemon(engine={"ready_s": 30}, env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "600000"})
    await_until(lambda: notify.said("READY=1"), 3 * SCALE, f"READY=1 once bound: {notify.messages}")
    await_until(lambda: notify.said("STATUS="), 3 * SCALE, "STATUS=")
    daemon.fake.script(load=[["sleep", 1]])
    chat = daemon.chat()
    await_until(lambda: [text for _, text in notify.said("STATUS=") if "starting" in text or "load" in text], 3 * SCALE, f"a STATUS of the load: {notify.messages}")
    check_answer(chat.wait_end(), case.letters.text(3))
    await_until(lambda: "ready" in notify.said("STATUS=")[-1][1], 3 * SCALE, f"a STATUS when ready: {notify.messages}")
    before = len(notify.said("WATCHDOG=1"))
    await_until(lambda: len(notify.said("WATCHDOG=1")) >= before + 4, 3 * SCALE, "WATCHDOG=1 goes on")
    beats = [at for at, _ in notify.said("WATCHDOG=1")]
    gaps = [b - a for a, b in zip(beats, beats[1:])]
    check(max(gaps) < 0.6 * SCALE, "more often than asked for", gaps)
    # A daemon that does not turn must not say that it does.
    daemon.signal(signal.SIGSTOP)
    run_for(0.3)
    count = len(notify.said("WATCHDOG=1"))
    run_for(1)
    check(len(notify.said("WATCHDOG=1")) == count, "silent while stopped")
    daemon.signal(signal.SIGCONT)
    await_until(lambda: len(notify.said("WATCHDOG=1")) > count, 2 * SCALE, "and again")
    daemon.signal(signal.SIGTERM)
    await_until(lambda: notify.said("STOPPING=1"), 2 * SCALE, f"STOPPING=1: {notify.messages}")
    check(daemon.await_exit(3 + SCALE) == 0, "exit 0")
    check(len(notify.said("READY=1")) == 1, "READY=1 once", notify.messages)


@test("ready_is_said_before_the_model_is")
def ready_early(case):
    notify = NotifySocket(case.folder)
    daemon = case.daemon("never_ready.sh", engine={"start": "eager"}, env={"NOTIFY_SOCKET": notify.path})
    await_until(lambda: notify.said("READY=1"), 3 * SCALE, "READY=1 once bound")
    check(daemon.get("/ready").status == 503, "the engine is not")
    check(not notify.said("WATCHDOG"), "no watchdog was asked for", notify.messages)


@test("socket_given_by_the_service_manager")
def given(case):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        # LISTEN_PID must be the daemon's own: a shell execs into it. The descriptor goes to 3, where the protocol wants it.
        script = f'exec 3<&{listener.fileno()}; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@"'
        daemon = case.daemon(prefix=["bash", "-c", script, "bash"], pass_fds=(listener.fileno(),))
    check(daemon.port == port, "it listens on what it was given", daemon.port, port)
    check_answer(daemon.chat().wait_end(), case.letters.text(3))
    daemon.stop()


@test("systemd_socket_activate")
def activate(case):
    tool = shutil.which("systemd-socket-activate")
    if not tool:
        raise Failure("systemd-socket-activate is missing: tools/setup --test installs it (package systemd)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    from procs import MARK
    daemon = case.daemon(wait=None)
    daemon.argv = [tool, "-l", f"127.0.0.1:{port}", "-E", f"{MARK}={daemon.mark}", "-E", f"FAKE_DIR={daemon.fake.folder}", *daemon.argv]
    daemon.start(wait=False)
    await_until(lambda: "Listening on" in daemon.stderr(), 5 * SCALE, "the socket waits")
    daemon.port = port
    chat = daemon.chat()  # the first connection starts it
    check_answer(chat.wait_end(20 * SCALE), case.letters.text(3))
    check(daemon.listening() and daemon.port == port, "its line names the socket's address", daemon.stdout)
    daemon.stop()
