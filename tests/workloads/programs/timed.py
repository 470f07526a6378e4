# Steps of DistributedDataParallel of about 10 ms, most of which is sleep, so that what is added to the processor time
# of a step can be seen.
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
took = []
for block in range(30):
    began = time.process_time()
    for step in range(20):
        time.sleep(0.0095)
        loss = model(torch.randn(16, 64)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
    took.append((time.process_time() - began) / 20)
    print(f"step {20 * (block + 1)} loss {mean.item():.9g}", flush=True)
print(f"{1e3 * statistics.median(took):.4f} ms a step")
time.sleep(1)  # see ddp.py
