"""Watches the libraries that a program imports: what it reports to them, and how long it waits in them.

Nothing that a library computes is changed. What cannot be watched is told, and left as it is.
"""
import functools
import importlib.abc
import importlib.util
import inspect
import itertools
import sys
import threading
import time
import weakref

from . import _counts, _now, _processor, _recorder, _steps, _tell, _values

_COLLECTIVES = (
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced"
    " all_to_all all_to_all_single _all_gather_base barrier broadcast broadcast_object_list gather gather_object"
    " monitored_barrier reduce reduce_scatter reduce_scatter_tensor _reduce_scatter_base scatter scatter_object_list"
).split()

_here = threading.local()  # inside: the thread is in a collective, which may call others


def _never_raises(call):
    @functools.wraps(call)
    def wrapped(*args, **kwargs):
        try:
            return call(*args, **kwargs)
        except Exception:
            return None

    return wrapped


def _after(owner, name, then):
    """Calls then(returned, *args, **kwargs) after each call of owner.name."""
    original = getattr(owner, name)
    then = _never_raises(then)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        returned = original(*args, **kwargs)
        then(returned, *args, **kwargs)
        return returned

    setattr(owner, name, wrapped)


def _collectives(c10d):
    for name in _COLLECTIVES:
        if hasattr(c10d, name):
            setattr(c10d, name, _watched(c10d, name, getattr(c10d, name)))
    _never_raises(_recorder.prepare)()
    if hasattr(c10d, "init_process_group"):
        _after(c10d, "init_process_group", lambda *_, **__: _recorder.start())


def _group_name(c10d, group):
    """The same for all ranks of the group; None: it has none."""
    if group is c10d.GroupMember.WORLD:
        return "world"
    return getattr(group, "group_name", None) or c10d._pg_names[group]


def _watched(c10d, name, original):
    """What is called in a step finds the processor's caches cold: the fewer functions, the less that costs."""
    torch = sys.modules["torch"]
    places = {parameter: place for place, parameter in enumerate(inspect.signature(original).parameters)}
    group_at, async_at = places.get("group", sys.maxsize), places.get("async_op", sys.maxsize)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        if getattr(_here, "inside", False):
            return original(*args, **kwargs)
        counted = device = began = None  # began: on that GPU, or else in ns
        try:
            group = kwargs.get("group", args[group_at] if len(args) > group_at else None)
            counted = _counts.begin(name, "world" if group is None else _group_name(c10d, group))
        except Exception:
            pass
        try:
            # A call that goes on in the background waits elsewhere.
            if not kwargs.get("async_op", args[async_at] if len(args) > async_at else False):
                device = _device(torch, args, kwargs)
                began = _now() if device is None else _event(torch, device)
        except Exception:
            pass
        _here.inside = True
        try:
            returned = original(*args, **kwargs)
        finally:
            _here.inside = False
            _counts.end(counted)
        try:
            if device is None and began is not None:
                _steps.spend("waiting", _now() - began)
            elif began is not None:
                _steps.spend_events(began, _event(torch, device))
        except Exception:
            pass
        return returned

    return wrapped


def _device(torch, args, kwargs):
    """The GPU whose tensors a collective is called with; None: they are in the host's memory."""
    for value in itertools.chain(args, kwargs.values()):
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, torch.Tensor) and value.is_cuda:
            return value.device
    return None


def _event(torch, device):
    """An event on the current stream of the GPU; None while a graph is captured."""
    if torch.cuda.is_current_stream_capturing():
        return None
    event = torch.cuda.Event(enable_timing=True)
    event.record(torch.cuda.current_stream(device))
    return event


def _ddp(module):
    def made(_, model, *args, **kwargs):
        _steps.watch_model(model)

    kind = module.DistributedDataParallel
    _after(kind, "__init__", made)
    torch = sys.modules["torch"]
    forward = kind.forward

    def is_compiling():
        return hasattr(torch, "compiler") and hasattr(torch.compiler, "is_compiling") and torch.compiler.is_compiling()

    @functools.wraps(forward)
    def wrapped(model, *args, **kwargs):
        if not is_compiling():
            try:
                if _steps.changing:
                    _steps.begin_pass(model)
                if torch.is_grad_enabled() and model.require_backward_grad_sync:
                    # What its backward pass exchanges, out of Python's sight, is one collective.
                    c10d = sys.modules["torch.distributed.distributed_c10d"]
                    _counts.begin("DistributedDataParallel", _group_name(c10d, model.process_group), goes_on=0)
            except Exception:
                pass
        return forward(model, *args, **kwargs)

    kind.forward = wrapped


def _data_loader(module):
    _after(module._BaseDataLoaderIter, "__next__", lambda batch, *_: _steps.loaded(batch))


def _optimizer(module):
    if hasattr(module, "register_optimizer_step_post_hook"):
        # These return nothing: PyTorch would take what a hook returns in place of the arguments.
        module.register_optimizer_step_pre_hook(_steps.begin_optimizer)
        module.register_optimizer_step_post_hook(_steps.end_optimizer)
        return

    def made(_, optimizer, *args, **kwargs):  # before PyTorch 2.0
        kind = type(optimizer)
        step = kind.step
        if hasattr(step, "_lockstep"):
            return

        @functools.wraps(step)
        def wrapped(self, *args, **kwargs):
            _steps.begin_optimizer(self)
            returned = step(self, *args, **kwargs)
            _steps.end_optimizer(self)
            return returned

        wrapped._lockstep = True
        kind.step = wrapped

    _after(module.Optimizer, "__init__", made)


def _wandb(module):
    original = module.Run.log

    @functools.wraps(original)
    def log(run, data, *args, **kwargs):
        at = _step_of(run, *args, **kwargs)
        returned = original(run, data, *args, **kwargs)
        told(data, at)
        return returned

    @_never_raises
    def _step_of(run, step=None, *_, **__):
        return run.step if step is None else step  # its own count goes on with the call

    told = _never_raises(lambda data, step: _values(data, step, "wandb"))
    module.Run.log = log


def _mlflow(module):
    def metric(_, key, value, step=None, *args, **kwargs):
        _values({key: value}, step, "mlflow")

    def metrics(_, metrics, step=None, *args, **kwargs):
        _values(metrics, step, "mlflow")

    # Neither calls the other one.
    _after(module, "log_metric", metric)
    _after(module, "log_metrics", metrics)


def _transformers(module):
    def logged(_, trainer, logs, *args, **kwargs):
        _values(logs, trainer.state.global_step, "transformers")

    _after(module.Trainer, "log", logged)


def _lightning(module):
    """`module` calls the hooks of callbacks."""
    told = weakref.WeakKeyDictionary()  # by trainer: all its values are kept until there are others

    def called(_, trainer, hook, *args, **kwargs):
        if hook == "on_train_batch_end":
            if trainer.global_step % max(trainer.log_every_n_steps, 1) != 0:
                return
        elif hook != "on_validation_end" or trainer.sanity_checking:
            return
        before = told.get(trainer, {})
        values = {name: value for name, value in trainer.logged_metrics.items() if before.get(name) is not value}
        told[trainer] = dict(before, **values)
        _values(values, trainer.global_step, "lightning")

    _after(module, "_call_callback_hooks", called)


def _keras(module):
    class Reports(module.Callback):
        step = told = 0

        @_never_raises
        def on_train_batch_end(self, batch, logs=None):
            Reports.step += 1
            _steps.end_batch()
            if time.monotonic() - Reports.told > 0.1:  # the values may have to come from a GPU
                self.tell(logs)

        @_never_raises
        def on_epoch_end(self, epoch, logs=None):
            self.tell(logs)

        def tell(self, logs):
            Reports.told = time.monotonic()
            _values(logs or {}, Reports.step, "keras")

    def made(_, callbacks, *args, **kwargs):
        callbacks.append(Reports())
        if hasattr(callbacks, "_should_call_train_batch_hooks"):  # Keras 2
            callbacks._should_call_train_batch_hooks = True

    _after(module.CallbackList, "__init__", made)


def _tensorflow(module):
    """What is inside of a tf.function exchanges data out of Python's sight."""
    call = module.Function.__call__
    end = _never_raises(_steps.end_blocking)

    @functools.wraps(call)
    def wrapped(function, *args, **kwargs):
        if getattr(_here, "inside", False):
            return call(function, *args, **kwargs)
        _here.inside = True
        began, used = _now(), _processor.used()
        try:
            return call(function, *args, **kwargs)
        finally:
            _here.inside = False
            end(began, used)

    module.Function.__call__ = wrapped


def _jax(_):
    """What it computes goes on in the background: a program waits where it needs a result, or has begun much."""
    _steps.wait_anywhere()


# By the module that is waited for: the name that a person knows, what is done with the module, and the words of
# workload.metrics.hooks with any of which that is done.
_AWAITED = {
    "torch.distributed.distributed_c10d": ("torch.distributed", _collectives, "c10d"),
    "torch.nn.parallel.distributed": ("DistributedDataParallel", _ddp, "ddp"),
    "torch.optim.optimizer": ("torch.optim", _optimizer, "c10d ddp"),
    "torch.utils.data.dataloader": ("torch.utils.data", _data_loader, "c10d ddp"),
    "wandb.sdk.wandb_run": ("wandb", _wandb, "wandb"),
    "mlflow.tracking.fluent": ("mlflow", _mlflow, "mlflow"),
    "transformers.trainer": ("transformers", _transformers, "transformers"),
    "pytorch_lightning.trainer.call": ("lightning", _lightning, "lightning"),
    "lightning.pytorch.trainer.call": ("lightning", _lightning, "lightning"),
    "keras.src.callbacks": ("keras", _keras, "keras"),
    "tf_keras.src.callbacks": ("keras", _keras, "keras"),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": ("tensorflow", _tensorflow, "tensorflow"),
    "jax": ("jax", _jax, "jax"),
}


@_never_raises
def _imported(name, module):
    title, attach, _ = _AWAITED.pop(name, (None, None, None))
    if title is None:
        return
    package = sys.modules.get(name.split(".")[0])
    problem = None
    try:
        attach(module)
    except Exception as error:
        problem = "{}: {}".format(type(error).__name__, error)
    try:
        version = str(getattr(package, "__version__", "") or "")
    except Exception:
        version = ""
    _tell({"source": title, "version": version, "problem": problem})


class _Loader(importlib.abc.Loader):
    """Loads a module as its own loader does, and then watches it."""

    def __init__(self, name, loader):
        self._name, self._loader = name, loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _imported(self._name, module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _AWAITED or getattr(_here, "looking", False):
            return None
        _here.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _here.looking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(name, spec.loader)
        return spec


def await_imports(hooks):
    for name, (_, _, words) in list(_AWAITED.items()):
        if not set(words.split()).intersection(hooks):
            del _AWAITED[name]
    sys.meta_path.insert(0, _Finder())
