"""Watches the libraries that a program imports: what it reports to them, and how long it waits in them.

Nothing that a library computes is changed. What cannot be watched is told, and left as it is.
"""
import functools
import importlib.abc
import importlib.util
import sys
import time

from . import _steps, _tell, _values

_COLLECTIVES = (
    "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce all_reduce_coalesced"
    " all_to_all all_to_all_single _all_gather_base barrier broadcast broadcast_object_list gather gather_object"
    " monitored_barrier reduce reduce_scatter reduce_scatter_tensor _reduce_scatter_base scatter scatter_object_list"
).split()

_inside = 0  # depth of collectives that call others


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
            setattr(c10d, name, _timed(c10d, getattr(c10d, name)))


def _timed(c10d, original):
    torch = sys.modules["torch"]

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        global _inside
        if _inside:
            return original(*args, **kwargs)
        before = _event(torch, args, kwargs)
        began = time.monotonic_ns()
        _inside += 1
        try:
            returned = original(*args, **kwargs)
        finally:
            _inside -= 1
        # A call that goes on in the background waits elsewhere.
        if before is None:
            if not kwargs.get("async_op"):
                _steps.spend("waiting", time.monotonic_ns() - began)
        elif not kwargs.get("async_op"):
            _record(torch, before)
        return returned

    return wrapped


def _event(torch, args, kwargs):
    """An event on the GPU whose tensors a collective is called with; None: they are in the host's memory."""
    try:
        for value in list(args) + list(kwargs.values()):
            if isinstance(value, (list, tuple)) and value:
                value = value[0]
            if getattr(value, "is_cuda", False):
                if torch.cuda.is_current_stream_capturing():
                    return None
                event = torch.cuda.Event(enable_timing=True)
                event.record()
                return event
    except Exception:
        pass
    return None


@_never_raises
def _record(torch, before):
    after = torch.cuda.Event(enable_timing=True)
    after.record()
    _steps.spend_events(before, after)


def _ddp(module):
    def made(_, model, *args, **kwargs):
        _steps.watch_model(model)

    _after(module.DistributedDataParallel, "__init__", made)


def _optimizer(module):
    begins, ends = _never_raises(_steps.begin_optimizer), _never_raises(_steps.end_optimizer)
    if hasattr(module, "register_optimizer_step_post_hook"):
        # They return nothing: what a hook returns would replace the arguments.
        module.register_optimizer_step_pre_hook(lambda optimizer, *_: begins(optimizer))
        module.register_optimizer_step_post_hook(lambda optimizer, *_: ends(optimizer))
        return

    def made(_, optimizer, *args, **kwargs):  # before PyTorch 2.0
        kind = type(optimizer)
        step = kind.step
        if hasattr(step, "_lockstep"):
            return

        @functools.wraps(step)
        def wrapped(self, *args, **kwargs):
            begins(self)
            returned = step(self, *args, **kwargs)
            ends(self)
            return returned

        wrapped._lockstep = True
        kind.step = wrapped

    _after(module.Optimizer, "__init__", made)


def _wandb(module):
    def logged(_, run, data, step=None, *args, **kwargs):
        _values(data, step if step is not None else max(run.step - 1, 0), "wandb")

    _after(module.Run, "log", logged)


def _mlflow(module):
    def metric(_, key, value, step=None, *args, **kwargs):
        _values({key: value}, step, "mlflow")

    def metrics(_, metrics, step=None, *args, **kwargs):
        _values(metrics, step, "mlflow")

    # The first calls the other one in no version.
    _after(module, "log_metric", metric)
    _after(module, "log_metrics", metrics)


def _transformers(module):
    def logged(_, trainer, logs, *args, **kwargs):
        _values(logs, trainer.state.global_step, "transformers")

    _after(module.Trainer, "log", logged)


def _lightning(module):
    """`module` has the class Callback and is of either name of the package."""
    name = module.__name__.rsplit(".callbacks", 1)[0] + ".trainer.trainer"

    class Reports(module.Callback):
        told = {}  # all values are kept until there are others

        def tell(self, trainer):
            values = {name: value for name, value in trainer.logged_metrics.items() if self.told.get(name) is not value}
            self.told = dict(self.told, **values)
            _values(values, trainer.global_step, "lightning")

        @_never_raises
        def on_train_batch_end(self, trainer, *args, **kwargs):
            if trainer.global_step % max(trainer.log_every_n_steps, 1) == 0:
                self.tell(trainer)

        @_never_raises
        def on_validation_end(self, trainer, *args, **kwargs):
            if not trainer.sanity_checking:
                self.tell(trainer)

    def made(_, trainer, *args, **kwargs):
        trainer.callbacks.append(Reports())

    _watch(name, lambda found: _after(found.Trainer, "__init__", made))


def _keras(module):
    class Reports(module.Callback):
        step = told = 0

        @_never_raises
        def on_train_batch_end(self, batch, logs=None):
            Reports.step += 1
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


# By the module that is waited for: the name that a person knows, and what is done with the module.
_AWAITED = {
    "torch.distributed.distributed_c10d": ("torch.distributed", _collectives),
    "torch.nn.parallel.distributed": ("DistributedDataParallel", _ddp),
    "torch.optim.optimizer": ("torch.optim", _optimizer),
    "wandb.sdk.wandb_run": ("wandb", _wandb),
    "mlflow.tracking.fluent": ("mlflow", _mlflow),
    "transformers.trainer": ("transformers", _transformers),
    "pytorch_lightning.callbacks.callback": ("lightning", _lightning),
    "lightning.pytorch.callbacks.callback": ("lightning", _lightning),
    "keras.src.callbacks": ("keras", _keras),
    "tf_keras.src.callbacks": ("keras", _keras),
}


def _watch(name, attach):
    module = sys.modules.get(name)
    if module is None:
        _AWAITED[name] = ("", attach)
    else:
        attach(module)


def _imported(module):
    title, attach = _AWAITED.pop(module.__name__)
    package = sys.modules.get(module.__name__.split(".")[0])
    problem = None
    try:
        attach(module)
    except Exception as error:
        problem = "{}: {}".format(type(error).__name__, error)
    if title:
        version = str(getattr(package, "__version__", "") or "")
        _tell({"source": title, "version": version, "problem": problem})


class _Loader(importlib.abc.Loader):
    """Loads a module as its own loader does, and then watches it."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _imported(module)


class _Finder(importlib.abc.MetaPathFinder):
    _looking = False

    def find_spec(self, name, path=None, target=None):
        if name not in _AWAITED or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


def await_imports():
    sys.meta_path.insert(0, _Finder())
