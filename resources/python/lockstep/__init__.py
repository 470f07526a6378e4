"""What a program that Lockstep runs can tell it: values, and how long its steps take.

    import lockstep
    lockstep.log({"loss": loss}, step=step)
    with lockstep.step():
        ...

Outside of Lockstep all of this does nothing. It never blocks, and raises nothing. Needs Python 3.6.
"""
import json
import math
import os
import sys
import time

__all__ = ["log", "step"]

_fd = -1
_file = None  # what the descriptor is of, as _file_of() says
_path = ""  # of the pipe that is open
_MOST = 4096  # bytes that a pipe takes whole
_text = json.JSONEncoder(allow_nan=False, default=str).encode


def _is_of_torchrun():
    """Whether torchrun has started this process as a rank, or such a process has started it."""
    return "LOCKSTEP_LOCAL_PIPES" in os.environ and "LOCAL_RANK" in os.environ


def _file_of(fd):
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _open():
    """Returns a descriptor of the pipe to Lockstep, of the rank's own if torchrun has started it; -1: there is none."""
    global _file, _path
    paths = [os.environ.get("LOCKSTEP_PIPE", "")]
    if _is_of_torchrun():
        paths.insert(0, os.environ["LOCKSTEP_LOCAL_PIPES"] + os.environ["LOCAL_RANK"])
    for path in filter(None, paths):
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            _file, _path = _file_of(fd), path
            return fd
        except Exception:
            pass
    return -1


def _tell(message):
    if _fd < 0:
        return
    try:
        line = (_text(message) + "\n").encode()
        # A program that closes all descriptors may have a file of its own by this number.
        if len(line) <= _MOST and _file_of(_fd) == _file:
            os.write(_fd, line)
    except Exception:  # the pipe is full or closed, or a value has no text
        pass


# Nanoseconds, as the worker's clock.
_now = getattr(time, "monotonic_ns", None) or (lambda: int(time.monotonic() * 1e9))


def _number(value):
    """A float of a number, or of an array or tensor with one element; None of anything else.

    JSON has no text for what is not finite: it goes as "nan", "inf" or "-inf"."""
    if isinstance(value, (str, bytes)):
        return None
    try:
        number = float(value.item() if hasattr(value, "item") else value)
        return number if math.isfinite(number) else str(number)
    except Exception:
        return None


_own_step = 0


def log(values, step=None):
    """Reports values by their names: {"loss": 0.5}. Without a step, that of the last step() counts."""
    try:
        _values(values, (_own_step or None) if step is None else step)
    except Exception:
        pass


def _values(values, step, source=None):
    """Tells the numbers among the values; `source`: the library whose call reports them."""
    if _fd < 0:
        return
    step = None if step is None else int(step)  # one of NumPy's has no JSON
    for name, value in dict(values).items():
        number = _number(value)
        if number is not None:
            message = {"step": step, "tag": str(name), "value": number}
            _tell(dict(message, source=source) if source else message)


class step:
    """A step of the training, which is timed: `with lockstep.step(): …`."""

    def __enter__(self):
        global _own_step
        _own_step += 1
        self._number = _own_step
        _quietly("begin_own")
        self._began = _now()
        return self

    def __exit__(self, *_):
        if _fd >= 0:
            _tell({"step": self._number, "tag": "step_seconds", "value": (_now() - self._began) / 1e9})
        _quietly("end_own")
        return False


def _quietly(name):
    """Calls a function of _steps, if there is anybody to tell steps to."""
    try:
        if _fd >= 0:
            from . import _steps

            getattr(_steps, name)()
    except Exception:
        pass


def _attach():
    """Lets Lockstep read this process's stacks, and watches what it imports. Called once, at the start of Python, by
    sitecustomize; not at all where the run has no hooks."""
    if _fd < 0:
        return
    hooks = os.environ.get("LOCKSTEP_HOOKS", "").split()
    stacks = False
    try:
        if "stacks" in hooks:
            import faulthandler
            import signal

            # Not SIGUSR1 or SIGUSR2, which are the person's.
            faulthandler.register(signal.SIGRTMIN + 6, file=_fd, all_threads=True)
            stacks = True
    except Exception:
        pass
    _tell({"hello": os.getpid(), "python": sys.version.split()[0], "stacks": stacks})
    from . import _libraries

    _libraries.await_imports(hooks)


def _tell_rank():
    """Tells that this process is the rank, if torchrun has started it."""
    if _is_of_torchrun() and "LOCKSTEP_LAUNCHED" not in os.environ:
        os.environ["LOCKSTEP_LAUNCHED"] = "1"  # what this process starts is no rank
        _tell({"hello": os.getpid(), "launched": True})


def _forked():
    """A child that a program forks, as a data loader, is no rank: it tells nothing. One that it starts does: of the
    processes of a rank, the worker takes the steps of the first."""
    global _fd
    _fd = -1


_fd = _open()
_tell_rank()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
