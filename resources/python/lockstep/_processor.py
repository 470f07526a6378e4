"""How long this process waits for other ranks in a framework that does not tell it: by processor time.

It waits while none of its threads computes, or could compute and is given no core. Of threads that compute at once the
sum counts, so what is found is the least that it waits. What a GPU computes takes no processor time: nothing is told.
"""
import os
import time

from . import _now, _tell

_EVERY = 200000000  # ns between two looks at all threads
_DEVICES = ("/libcuda.so", "/libamdhip64.so", "/libtpu.so")  # in a process that has something compute

_shows = None  # whether processor time shows what the process computes; None: not known yet
_looked = 0  # ns, at all threads
_delay = 0  # ns that they had been without a core by then, together
_share = 0.0  # of that, in the time from the look before


def used():
    """Nanoseconds of processor time, of all threads."""
    return time.process_time_ns() if hasattr(time, "process_time_ns") else int(time.process_time() * 1e9)


def divide(duration, blocked, computed):
    """Returns for how many ns calls in a step of this duration have waited, and computed. `blocked`: what they took;
    `computed`: the process's processor time in them."""
    blocked = min(blocked, duration)
    if blocked <= 0 or not is_shown():
        return 0, 0
    computing = min(blocked, computed + int(_without_core() * duration))
    return blocked - computing, computing


def is_shown():
    """Whether processor time shows what this process computes. Tells, once, that it is read, or why it is not."""
    global _shows
    if _shows is None:
        try:
            with open("/proc/self/maps") as file:
                maps = file.read()
        except OSError:
            maps = ""
        _shows = not any(name in maps for name in _DEVICES)
        _tell({"source": "processor time", "problem": None if _shows else "a GPU or TPU computes, which takes none"})
    return _shows


def _without_core():
    """For how much of the time, of late, threads could run and were given no core: by other processes, or a quota."""
    global _looked, _delay, _share
    now = _now()
    if now - _looked > _EVERY:
        delay = sum(_delay_of(thread) for thread in os.listdir("/proc/self/task"))
        if _looked:
            _share = max(0, delay - _delay) / (now - _looked)
        _looked, _delay = now, delay
    return _share


def _delay_of(thread):
    try:
        with open("/proc/self/task/" + thread + "/schedstat") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):  # the thread has ended, or the kernel does not tell
        return 0
