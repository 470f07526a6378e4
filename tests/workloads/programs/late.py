# DistributedDataParallel whose rank argv[1], if there is one, sleeps for 80 ms in each step from step 20 on.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, slow = dist.get_rank(), int(sys.argv[1])
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(1, 101):
    time.sleep(0.1 if rank == slow and step >= 20 else 0.02)
    loss = model(torch.randn(16, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0:
        print(f"step {step} loss {loss.item():.9g}", flush=True)
time.sleep(1)  # see ddp.py
