"""How long the training steps of this process take, and how long it waits for others in them.

A step ends with the call of an optimizer, or with the program's own lockstep.step(). The process that waits
least for the others is the one that they wait for: that needs no common clock.
"""
import time
import weakref

from . import _tell

_own = False  # the program says itself what a step is
_number = 0  # of the step that goes on
_began = 0  # ns; 0: no step has ended yet
_spent = {}  # ns in the step that goes on: "waiting", "optimizer"
_done = None  # the last step, which is told when DistributedDataParallel has its times
_events = []  # pairs of CUDA events of the last step and of this one
_models = {}  # weak reference of a DistributedDataParallel -> the iteration that it has told
_leader = None  # the optimizer whose calls end steps
_others = 0  # calls of other optimizers since
_calls = []  # of optimizers, one within another: (optimizer, ns)


def spend(phase, nanoseconds):
    _spent[phase] = _spent.get(phase, 0) + nanoseconds


def spend_events(before, after):
    """Waiting between two CUDA events, which have been recorded."""
    _events.append((before, after))


def watch_model(model):
    model._set_ddp_runtime_logging_sample_rate(1)
    _models[weakref.ref(model)] = 0


def begin_optimizer(optimizer):
    for depth, (other, _) in enumerate(_calls):
        if other is optimizer:  # its last call has failed
            del _calls[depth:]
            break
    _calls.append((optimizer, time.monotonic_ns()))


def end_optimizer(optimizer):
    global _leader, _others
    while _calls:
        other, began = _calls.pop()
        if other is optimizer:
            break
    else:
        return
    if _calls:
        return
    spend("optimizer", time.monotonic_ns() - began)
    if _own:
        return
    # Of several optimizers one counts; another takes its place if that one is not called any more.
    if _leader is None or _leader() is optimizer:
        _others = 0
    else:
        _others += 1
        if _others < 8:
            return
        _others = 0
    _leader = weakref.ref(optimizer)
    end(_number + 1)


def end_own(number, began):
    """Ends a step of lockstep.step(); returns its nanoseconds."""
    global _own, _began
    if not _own:
        _own, _began = True, 0
        _spent.clear()
    now = time.monotonic_ns()
    # What the program does between two steps is part of the second.
    end(number, _began or began)
    return now - began


def end(number, began=None):
    global _number, _began, _spent, _done
    now = time.monotonic_ns()
    if _done is not None:
        _told(_done)
    began = _began if began is None else began
    _done = (number, began, now - began, _spent) if began else None
    _number, _began, _spent = number, now, {}


def _told(step):
    """The last step, with what is known of it by now."""
    number, began, duration, spent = step
    waiting = spent.get("waiting", 0) + _elapsed()
    forward = backward = 0
    for reference in list(_models):
        model = reference()
        if model is None:
            del _models[reference]
            continue
        data = model._get_ddp_logging_data()
        # Those of the last backward pass; the step may have had several.
        passes = data.get("iteration", 0) - _models[reference]
        if passes <= 0:
            continue
        _models[reference] += passes
        overlap = data.get("backward_compute_comm_overlap_time", 0)
        waiting += passes * max(data.get("backward_comm_time", 0) - overlap, 0)
        forward += passes * data.get("forward_compute_time", 0)
        backward += passes * data.get("backward_compute_time", 0)
    seconds = [round(ns / 1e9, 7) for ns in (duration, waiting, forward, backward, spent.get("optimizer", 0))]
    _tell({"ended": number, "began": began, "seconds": seconds})


def _elapsed():
    """Nanoseconds between the pairs of events that the GPU has passed."""
    total = 0
    while _events and _events[0][1].query():
        before, after = _events.pop(0)
        total += int(before.elapsed_time(after) * 1e6)
    del _events[:-4096]
    return total
