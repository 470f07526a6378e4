# PyTorch's DistributedDataParallel on CPUs.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = torch.Generator().manual_seed(100 + rank)
for step in range(1, int(sys.argv[1]) + 1):
    x = torch.randn(32, 64, generator=data)
    loss = nn.functional.mse_loss(model(x).squeeze(1), x.square().mean(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / world:.9g}")
time.sleep(1)  # a thread of Gloo that still holds a tensor aborts a process that ends (pytorch/pytorch#179291)
