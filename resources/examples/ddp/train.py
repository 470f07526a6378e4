"""A network trained on all ranks with PyTorch's DistributedDataParallel, on data that it makes up."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, SAMPLES, INPUTS, CLASSES = 300, 256, 64, 10


def main():
    dist.init_process_group("gloo")  # "nccl" on GPUs
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)  # the same initial weights and data everywhere
    truth = torch.randn(INPUTS, CLASSES)
    model = torch.nn.Sequential(torch.nn.Linear(INPUTS, 128), torch.nn.ReLU(), torch.nn.Linear(128, CLASSES))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    torch.manual_seed(100 + rank)  # from here on, samples of its own
    for step in range(1, STEPS + 1):
        inputs = torch.randn(SAMPLES // world, INPUTS)
        outputs = model(inputs)
        labels = (inputs @ truth).argmax(1)
        loss = torch.nn.functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        figures = torch.stack([loss.detach(), (outputs.argmax(1) == labels).float().mean()])
        dist.all_reduce(figures)
        if rank == 0:
            mean, accuracy = (figures / world).tolist()
            print(f"step {step} loss {mean:.6f} accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
