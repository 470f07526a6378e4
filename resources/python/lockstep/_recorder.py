"""Tells Lockstep, when it asks, what PyTorch's Flight Recorder has of each process group: the collective that goes
on, or else the last one.

A thread waits to be asked, as a program that hangs runs no code of its own. Only the recorder's JSON is read.
"""
import _thread
import json
import os
import sys
import time

import lockstep

from . import _counts, _tell

# Of ProcessGroupNCCL, since PyTorch 2.5, and of other backends, since 2.8.
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
_GROUPS, _SIZES, _LONGEST_DUMP = 64, 4, 1 << 26
_DELAY = 0.5  # s; the stacks, which are asked for at the same time, go through the same pipe in many small pieces

_started = False


def _dumps():
    library = getattr(sys.modules["torch"]._C, "_distributed_c10d", None)
    return [getattr(library, name) for name in _DUMPS if hasattr(library, name)]


def prepare():
    """Lets the recorder record, where it is off by default. Called before there are process groups."""
    names = ("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE")
    if _dumps() and not any(name in os.environ for name in names):
        version = tuple(int(part) for part in sys.modules["torch"].__version__.split(".")[:2])
        os.environ[names[version >= (2, 9)]] = "2000"  # newer ones warn of the older name


def start():
    """Called when there is a process group."""
    global _started
    if _started or not _dumps() or not _counts.here():
        return
    _started = True
    # With an end of its own to write to, the pipe does not end.
    asked = os.open(lockstep._path + ".ask", os.O_RDWR | os.O_CLOEXEC)
    _thread.start_new_thread(_answer, (asked,))


def _answer(asked):
    try:
        while os.read(asked, 4096):
            time.sleep(_DELAY)
            for message in _recorded():
                _tell(message)
    except Exception:
        pass


def _recorded():
    """A message for each group; those whose collective goes on are the last."""
    found = {}
    for dump in _dumps():
        try:
            text = dump()
            for entry in json.loads(text).get("entries", ()) if len(text) <= _LONGEST_DUMP else ():
                _take(entry, found)
        except Exception:
            pass
    order = sorted(found.values(), key=lambda pair: (pair[1]["state"] != "completed", pair[0]))
    return [message for _, message in order[-_GROUPS:]]


def _take(entry, found):
    """Notes an entry, which is later than those before."""
    backend, _, name = entry["profiling_name"].rpartition(":")
    group, description = entry["process_group"]
    between_two = bool(entry.get("is_p2p"))
    number, state = entry["p2p_seq_id" if between_two else "collective_seq_id"], entry["state"]
    if entry.get("retired") and backend != "nccl":
        state = "completed"  # others than NCCL have no events that tell it
    key = (backend, group, between_two)
    before = found.get(key)
    if before and before[1]["state"] != "completed":
        before[1]["scheduled"] = max(before[1]["scheduled"], number)
        return
    found[key] = (
        entry["time_created_ns"],
        {
            "recorded": name,
            "group": backend + "/" + ("world" if description == "default_pg" else group),
            "number": number,
            "scheduled": number,
            "state": state,
            "sizes": _sizes(entry),
            "between_two": between_two,
        },
    )


def _sizes(entry):
    """ "Float [1000], Long [3, 4]", of its inputs."""
    tensors = ["{} {}".format(*one) for one in zip(entry.get("input_dtypes", ()), entry.get("input_sizes", ()))]
    return ", ".join(tensors[:_SIZES] + ["..."] * (len(tensors) > _SIZES))
