# Steps of DistributedDataParallel of about 10 ms, most of which is sleep, so that what is added to the processor time of
# a step can be seen. Processes differ by more than that: where there are hooks, one process does every second block of
# steps without them. What is left there is the Flight Recorder's account of each collective, and what
# DistributedDataParallel measures.
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optim

BLOCKS, STEPS, WARM = 160, 20, 2

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
of_optimizers = (optim._global_optimizer_pre_hooks, optim._global_optimizer_post_hooks)
hooks = [dict(one) for one in of_optimizers]
wrapped = (dist.all_reduce, DistributedDataParallel.forward)
hooked = all(hooks) and hasattr(DistributedDataParallel.forward, "__wrapped__")


def attach(on):
    for one, own in zip(of_optimizers, hooks):
        one.clear()
        one.update(own if on else {})
    dist.all_reduce, DistributedDataParallel.forward = wrapped if on else (one.__wrapped__ for one in wrapped)


def train(steps):
    for _ in range(steps):
        time.sleep(0.0095)
        loss = model(torch.randn(16, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
    return mean.item()


took = {True: [], False: []}
for block in range(BLOCKS):
    on = block % 4 in (0, 3)
    if hooked:
        attach(on)
    train(WARM)
    began = time.process_time()
    loss = train(STEPS)
    took[on].append((time.process_time() - began) / STEPS)
    print(f"block {block} loss {loss:.9g}", flush=True)
added = statistics.median(one - other for one, other in zip(took[True], took[False]))
print(f"{1e3 * added:.4f} of {1e3 * statistics.median(took[False]):.4f} ms a step{' without hooks' if hooked else ''}")
time.sleep(1)  # see ddp.py
