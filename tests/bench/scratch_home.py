"""A folder for what a benchmark's runs keep, which ends with the benchmark."""
import contextlib
import json
import subprocess
import tempfile
from pathlib import Path

LIMIT = 60  # seconds of a command


def parsed(lines):
    """Yields the events that `lockstep … --json` prints; other lines, as a sanitizer's, are left out."""
    for line in lines:
        if line.startswith("{"):
            with contextlib.suppress(ValueError):  # a line that was cut off
                yield json.loads(line)


def end_all(lockstep, home):
    """Kills the runs that are under way, since the end of a client ends no run, and ends the agents."""
    def call(program, *words):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return subprocess.run([program, *words], capture_output=True, text=True, timeout=LIMIT).stdout
        return ""

    for event in parsed(call(lockstep, "--home", home, "runs", "--json").splitlines()):
        if "run" in event:
            call(lockstep, "--home", home, "kill", event["run"])
    for workdir in sorted(Path(home, "local").glob("*")):
        call(str(Path(lockstep).with_name("lockstep-agent")), "leave", "--workdir", str(workdir))


@contextlib.contextmanager
def scratch_home(lockstep, name, folder=None):
    """Yields a new folder for `--home`, in `folder` if given. At the end, also after an error, its runs and agents end
    and it is removed."""
    with tempfile.TemporaryDirectory(prefix=f"lockstep-{name}-", dir=folder, ignore_cleanup_errors=True) as home:
        try:
            yield home
        finally:
            end_all(lockstep, home)
