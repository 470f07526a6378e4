"""Holds a rank of a run back by a CPU quota. Needs root for control groups."""
import contextlib
import os
import pathlib

PERIOD = 20000  # µs of a quota's period


@contextlib.contextmanager
def _group(name):
    """Yields the folder of a new control group of the CPUs' time; its processes return to where all others are."""
    first = pathlib.Path("/sys/fs/cgroup/cpu")
    parent = first if first.is_dir() else pathlib.Path("/sys/fs/cgroup")
    group = parent / f"lockstep-{name}-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (parent / "cgroup.procs").write_text(pid)
        group.rmdir()


@contextlib.contextmanager
def quota(cores):
    """Yields a function that puts a process under the quota."""
    with _group("quota") as group:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{int(cores * PERIOD)} {PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD)))
        yield lambda pid: (group / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def idle_time():
    """Yields a function that has a process run only while its core has nothing else to do."""
    with _group("idle") as group:
        (group / "cpu.idle").write_text("1")
        yield lambda pid: (group / "cgroup.procs").write_text(str(pid))


def workers(run):
    """Process ids by rank: nodes of local agents are numbered as their ranks."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"worker" in (folder / "cmdline").read_bytes() and \
                    f"LOCKSTEP_RUN={run}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                node = (folder / "cwd").resolve().name
                found[int("".join(c for c in node if c.isdigit())) - 1] = int(folder.name)
    return found


def give_each_its_core(pids):
    """Pins the processes to cores of this machine by turns, as hosts have cores of their own."""
    cores = sorted(os.sched_getaffinity(0))
    for i, pid in enumerate(pids):
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), {cores[i % len(cores)]})
