# PyTorch's DistributedDataParallel; rank 0 reports to TensorBoard, and prints nothing until its end.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
if rank == 0:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter("runs", flush_secs=1)
torch.manual_seed(1)
model = DistributedDataParallel(nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data = torch.Generator().manual_seed(100 + rank)
for step in range(1, int(sys.argv[1]) + 1):
    x = torch.randn(16, 32, generator=data)
    loss = nn.functional.cross_entropy(model(x), x[:, :8].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        writer.add_scalar("train/loss", mean.item() / world, step)
    time.sleep(0.05)
if rank == 0:
    writer.close()
    print(f"final loss {mean.item() / world:.9g}")
time.sleep(1)  # a thread of Gloo that still holds a tensor aborts a process that ends (pytorch/pytorch#179291)
