"""How long the training steps of this process take, and how long it waits for others in them.

A step ends with the call of an optimizer, or with the program's own lockstep.step(). The process that waits
least for the others is the one that they wait for: that needs no common clock.
"""
import atexit
import time
import weakref

from . import _tell

_TELL = 15000000  # ns from the begin of the first step that is not told, after which it is
_MOST = 32

_own = False  # the program says itself what a step is
_number = 0  # of the step that goes on
_began = 0  # ns; 0: no step has ended yet
_spent = {}  # ns in the step that goes on: "waiting", "optimizer"
_ended = []  # steps that are not told yet: (nanoseconds of its begin and of its length, what of that was spent how)
_events = []  # pairs of CUDA events, one before and one after a wait
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
    global _number, _began, _spent
    now = time.monotonic_ns()
    # DistributedDataParallel has the times of a step in the next one, and takes some 40 us to tell them.
    if _ended and (now - _ended[0][0] > _TELL or len(_ended) >= _MOST):
        _tell_steps()
    began = _began if began is None else began
    if began:
        _ended.append((began, now - began, _spent))
    _number, _began, _spent = number, now, {}


@atexit.register
def _tell_last():
    try:
        if _ended:
            _tell_steps()
    except Exception:
        pass


def _tell_steps():
    """All that have ended. The passes of the last one stand for those of all."""
    waiting, forward, backward = _elapsed(), 0, 0
    for reference in list(_models):
        model = reference()
        if model is None:
            del _models[reference]
            continue
        data = model._get_ddp_logging_data()
        passes = data.get("iteration", 0) - _models[reference]
        if passes <= 0:
            continue
        _models[reference] += passes
        overlap = data.get("backward_compute_comm_overlap_time", 0)
        waiting += passes * max(data.get("backward_comm_time", 0) - overlap, 0)
        forward += passes * data.get("forward_compute_time", 0)
        backward += passes * data.get("backward_compute_time", 0)
    count = len(_ended)
    steps = []
    for began, duration, spent in _ended:
        parts = (waiting / count + spent.get("waiting", 0), forward / count, backward / count, spent.get("optimizer", 0))
        steps.append([began, duration] + [int(part) for part in parts])
    _tell({"first": _number - count + 1, "steps": steps})
    del _ended[:]


def _elapsed():
    """Nanoseconds between the pairs of events that the GPU has passed."""
    total = 0
    while _events and _events[0][1].query():
        before, after = _events.pop(0)
        total += int(before.elapsed_time(after) * 1e6)
    del _events[:-4096]
    return total
