# PyTorch's fully sharded data parallelism (FSDP2) on CPUs: a transformer whose blocks are sharded.
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WORDS, LENGTH, WIDTH = 50, 16, 48


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.embed(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world,))
torch.manual_seed(1)
model = Model()
for block in model.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = torch.Generator().manual_seed(100 + rank)
for step in range(1, int(sys.argv[1]) + 1):
    words = torch.randint(WORDS, (8, LENGTH), generator=data)
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1), (words * 7 % WORDS).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / world:.9g}")
time.sleep(1)  # a thread of Gloo that still holds a tensor aborts a process that ends (pytorch/pytorch#179291)
