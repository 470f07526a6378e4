"""How long the training steps of this process take, and how long it waits for others in them.

A step ends with the call of an optimizer, with a batch of Keras, or with the program's own lockstep.step(). The
process that waits least for the others is the one that they wait for: that needs no common clock.
"""
import atexit
import collections.abc
import itertools
import os
import sys
import weakref

from . import _now, _processor, _tell

_SHORT, _TELL = 20000000, 200000000  # ns; steps under _SHORT are told together, those of _TELL at most
_MOST_STEPS, _MOST_EVENTS, _MOST_PARTS = 32, 4096, 1000
# DistributedDataParallel measures one of so many passes: it waits for the GPU then; and of short steps, as that takes
# some 40 us. Of longer steps it measures each.
_CUDA_RATE, _SHORT_RATE = 20, 8

_own = False  # the program says itself what a step is
_inside = 0  # depth of lockstep.step()
_number = 0  # of the last step that has ended
_began = 0  # ns, of the step that goes on; 0: no step has ended yet
# Of the step that goes on: ns "waiting" and in the "optimizer", and "elements" that were loaded; of calls in which the
# process may wait for others, how long they "blocked", and the processor time "computed" in them.
_spent = {}
_anywhere = False  # the program may wait anywhere in a step: it uses JAX
_used = 0  # ns of processor time, at the end of the last step of such a program
_ended = []  # steps that are not told yet: (nanoseconds of its begin and of its length, what of that was spent how)
_events = collections.deque()  # pairs of CUDA events, one before and one after a wait
_models = []
changing = False  # the rate of one of them, with its next pass
_leader = None  # the optimizer whose calls end steps
_others = 0  # calls of other optimizers since
_calls = []  # of optimizers that go on, one within another: a reference to each, and when it was called, in ns
_ended_within = set()  # the id() of those that the first of these has called
_cuda = False


def spend(phase, amount):
    _spent[phase] = _spent.get(phase, 0) + amount


def end_blocking(began, used):
    """A call has ended in which the process computes, and may wait for others: where no library tells how long."""
    spend("blocked", _now() - began)
    spend("computed", _processor.used() - used)


def wait_anywhere():
    global _anywhere
    _anywhere = True


def loaded(batch):
    """A data loader has given the program a batch."""
    spend("elements", _elements(batch))


def _elements(batch):
    """Of all tensors in a batch, of which _MOST_PARTS parts are looked at: the outer ones before the inner ones."""
    total, left = 0, _MOST_PARTS
    containers = collections.deque([(batch,)])
    while containers and left > 0:
        for part in itertools.islice(containers.popleft(), left):
            left -= 1
            count = getattr(part, "numel", None)
            if callable(count):
                total += int(count())
            elif isinstance(part, collections.abc.Mapping):
                containers.append(part.values())
            elif isinstance(part, (list, tuple)):
                containers.append(part)
    return total


def spend_events(before, after):
    """Waiting between two CUDA events, which have been recorded. `after` is None while a graph is captured."""
    global _cuda
    _cuda = True
    if after is not None and len(_events) < _MOST_EVENTS:
        _events.append((before, after))


class _Model:
    """A DistributedDataParallel, with what its own account says of a step."""

    def __init__(self, model):
        global _cuda
        self.reference = weakref.ref(model)
        parameter = next(model.parameters(), None)
        self.on_cuda = parameter is not None and parameter.is_cuda
        _cuda = _cuda or self.on_cuda
        self.iteration = self.steps = 0  # since the last measured one
        self.of_late = (0, 0)  # passes, and the steps that they were in
        self.parts = (0, 0, 0)  # ns of a step: waiting, forward, backward
        rate = _CUDA_RATE if self.on_cuda else 1
        self.wanted = (rate, rate)  # by what was told the time before the last, and the last time
        self.measure(model)

    def measure(self, model):
        """One of so many passes. Not within a pass: what is measured has to begin and end."""
        self.rate = self.wanted[1]
        model._set_ddp_runtime_logging_sample_rate(self.rate)

    def changes(self):
        return self.rate != self.wanted[0] == self.wanted[1]

    def of_step(self, model, steps):
        """Returns the parts of each of the last `steps` steps."""
        global changing
        data = model._get_ddp_logging_data()
        passes = data.get("iteration", 0) - self.iteration
        self.steps += steps
        if passes > 0:  # those of the last pass, which stands for all since
            before = self.of_late if self.rate > 1 else (0, 0)  # between two measured ones there may be more steps
            self.of_late = (before[0] + passes, before[1] + self.steps)
            share = self.of_late[0] / self.of_late[1]
            if self.of_late[1] > 256:
                self.of_late = (self.of_late[0] / 2, self.of_late[1] / 2)
            overlap = data.get("backward_compute_comm_overlap_time", 0)
            waiting = max(data.get("backward_comm_time", 0) - overlap, 0)
            others = (data.get("forward_compute_time", 0), data.get("backward_compute_time", 0))
            self.parts = tuple(share * part for part in (waiting,) + others)
            self.iteration += passes
            self.steps = 0
        elif self.rate == 1 or self.steps > 10 * self.rate:  # it is not trained
            self.parts = (0, 0, 0)
        if not self.on_cuda:
            self.wanted = (self.wanted[1], _SHORT_RATE if steps > 1 else 1)
            changing = changing or self.changes()
        return self.parts


def begin_pass(model):
    """Called before a pass of a DistributedDataParallel if `changing`."""
    global changing
    for known in _models:
        if known.reference() is model and known.changes():
            known.measure(model)
    changing = any(known.changes() for known in _models)


def watch_model(model):
    _models.append(_Model(model))


def begin_optimizer(optimizer, *_):
    """Called by PyTorch before each call of an optimizer, as end_optimizer() is after it: neither raises."""
    try:
        for depth, call in enumerate(_calls):
            if call[0]() in (None, optimizer):  # that call has failed
                del _calls[depth:]
                break
        if not _calls:
            _ended_within.clear()
        _calls.append((weakref.ref(optimizer), _now()))
    except Exception:
        pass


def end_optimizer(optimizer, *_):
    global _leader, _others
    try:
        while _calls:
            reference, began = _calls.pop()
            if reference() is optimizer:
                break
        else:
            return
        if _calls:
            # A call calls each other optimizer once; one that has failed does not end.
            if id(optimizer) not in _ended_within:
                _ended_within.add(id(optimizer))
                return
            del _calls[:]
        spend("optimizer", _now() - began)
        if _own or (_cuda and _captures()):
            return
        # Of several optimizers one counts; another takes its place if that one is not called any more.
        leader = _leader() if _leader else None
        if leader is not optimizer:
            _others += 1
            if leader is not None and _others < 8:
                return
            _leader = reference
        _others = 0
        _end()
    except Exception:
        pass


def end_batch():
    """Keras has trained a batch. That ends a step where nothing else does, and it is known how the process waits."""
    if _own or _leader is not None:
        return
    _divide()
    if _models or "waiting" in _spent or ("blocked" in _spent and _processor.is_shown()):
        _end()


def begin_own():
    """A step of lockstep.step() begins. What the program does between two of them is part of the second."""
    global _own, _inside, _began, _used
    _inside += 1
    if not _own:
        tell()
        _own, _began, _used = True, _now(), _processor.used()
        _spent.clear()


def end_own():
    global _inside
    _inside -= 1
    if _inside == 0:
        _divide()
        _end()


def _divide():
    """A step of a program that may wait anywhere ends: all of it is divided, unless something tells how it waits."""
    global _used
    if not _anywhere:
        return
    used = _processor.used()
    if not _models and not {"waiting", "blocked"}.intersection(_spent):
        _spent["blocked"] = float("inf")  # however long the step is
        spend("computed", used - _used)
    _used = used


def _captures():
    """Whether a CUDA graph is being captured: what is called then is not what happens."""
    return sys.modules["torch"].cuda.is_current_stream_capturing()


def _end():
    global _number, _began, _spent
    now = _now()
    # DistributedDataParallel has the times of a step in the next one. To get and tell them takes some 100 us.
    if _ended and (_ended[-1][1] >= _SHORT or now - _ended[0][0] >= _TELL or len(_ended) >= _MOST_STEPS):
        tell()
    if _began:
        _ended.append((_began, now - _began, _spent))
    _number, _began, _spent = _number + 1, now, {}


def tell():
    """Tells all steps that have ended."""
    ended = _ended[:]
    del _ended[:]
    if not ended:
        return
    waiting, forward, backward = _elapsed() / len(ended), 0, 0
    for known in _models[:]:
        model = known.reference()
        if model is None:
            _models.remove(known)
            continue
        try:
            parts = known.of_step(model, len(ended))
        except Exception:
            _models.remove(known)
            continue
        waiting, forward, backward = waiting + parts[0], forward + parts[1], backward + parts[2]
    steps = []
    for began, duration, spent in ended:
        waited, computed = _processor.divide(duration, spent.get("blocked", 0), spent.get("computed", 0))
        parts = (waiting + spent.get("waiting", 0) + waited, forward + computed, backward)
        parts += (spent.get("optimizer", 0), spent.get("elements", 0))
        steps.append([began, duration] + [int(part) for part in parts])
    _tell({"pid": os.getpid(), "first": _number - len(ended) + 1, "steps": steps})


def _elapsed():
    """Nanoseconds between the pairs of events that the GPU has passed."""
    total = 0
    if _cuda and _captures():
        return total
    while _events and _events[0][1].query():
        before, after = _events.popleft()
        total += int(before.elapsed_time(after) * 1e6)
    return total


@atexit.register
def _tell_last():
    try:
        tell()
    except Exception:
        pass
