"""What /proc says about the daemon and its children: who belongs to it, zombies, descriptors, memory. Reads only."""
import os

MARK = "PROCESS_TEST_MARK"  # in the environment of every daemon that a test starts; children inherit it


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (item.partition(b"=") for item in file.read().split(b"\0") if item)
            return {name.decode("latin-1"): value.decode("latin-1") for name, _, value in pairs}
    except OSError:
        return {}


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat(pid):
    """State letter and parent, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return fields[0].decode(), int(fields[1])
    except OSError:
        return None


def cpu_s(pid):
    """CPU seconds that it has used."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("latin-1").strip()
    except OSError:
        return ""


def marked(mark):
    """pid -> environment of every living process (a zombie has no environment) that carries the mark of a test."""
    found = {}
    for pid in pids():
        variables = environment(pid)
        if variables.get(MARK) == mark:
            found[pid] = variables
    return found


def zombies_of(parent):
    return [pid for pid in pids() if stat(pid) == ("Z", parent)]


def descriptors(pid):
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}").split(":[")[0])
        except OSError:
            pass
    return sorted(found)


def memory_kib(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))


def forget_peak_memory(pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
