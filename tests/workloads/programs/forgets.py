# DistributedDataParallel of which rank 1, once, waits for a batch where the others are in a collective.
import os
import queue
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

batches = queue.Queue()


def load_batch():
    return batches.get()  # forgotten: nobody puts one


def train(model, optimizer, step):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 20 and dist.get_rank() == 1 and not os.path.exists("hung"):
        open("hung", "w").close()
        load_batch()
    dist.all_reduce(loss.detach())
    if step == 19 and dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.9g}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1, 41):
        train(model, optimizer, step)
    time.sleep(1)  # see ddp.py


main()
