# DeepSpeed with ZeRO stage 1, on CPUs. The optimizer is PyTorch's: none of DeepSpeed's own has to be compiled.
import os
import sys
import time

os.environ.setdefault("DS_ACCELERATOR", "cpu")
import deepspeed
import torch
import torch.distributed as dist
from torch import nn

torch.set_num_threads(1)
deepspeed.init_distributed(dist_backend="gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
engine, _, _, _ = deepspeed.initialize(
    model=model, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
    config={"train_micro_batch_size_per_gpu": 64, "zero_optimization": {"stage": 1}, "steps_per_print": sys.maxsize})
random = torch.Generator().manual_seed(100 + rank)
for step in range(1, int(sys.argv[1]) + 1):
    x = torch.randn(64, 32, generator=random)
    y = (x[:, :16].sum(1) > x[:, 16:].sum(1)).long()
    loss = nn.functional.cross_entropy(engine(x), y)
    engine.backward(loss)
    engine.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / world:.9g}", flush=True)
time.sleep(1)  # see ddp.py
