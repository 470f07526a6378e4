#!/usr/bin/env python3
"""Steady-state training of fashion-mlp or fashion-cnn with PyTorch: the peer of `lockstep bench train`.

torch_train.py MODEL BATCH THREADS [--seconds S] [--variant NAME|best]

Prints one JSON object with samples_per_second: the median of windows of 0.25 s, of the fastest
variant (eager or TorchScript forward, single or for-each Adam, memory format). Data are random
and already floats in memory, batches are slices, so that nothing but training is timed.
"""
import argparse
import json
import os
import statistics
import sys
import time

# glibc returning memory to the system between steps halves the CNN; a forced core type or
# cache size halves OpenBLAS. The allocator reads its settings at start, hence the second exec.
SETTINGS = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824",
            "MALLOC_TOP_PAD_": "268435456"}


def prepare_environment(threads):
    wanted = dict(SETTINGS, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads),
                  MKL_NUM_THREADS=str(threads))
    unwanted = [name for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
    if unwanted or any(os.environ.get(name) != value for name, value in wanted.items()):
        for name in unwanted:
            del os.environ[name]
        os.environ.update(wanted)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def build(torch, model):
    nn = torch.nn
    if model == "fashion-mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(5408, 10))


def measure(torch, model_name, batch, seconds, variant):
    torch.manual_seed(1)
    model = build(torch, model_name)
    count = max(8 * batch, 2048) // batch * batch
    x = torch.rand(count, 1, 28, 28)
    label = torch.randint(0, 10, (count,))
    if "nhwc" in variant:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach="foreach" in variant)
    loss_of = torch.nn.CrossEntropyLoss()
    forward = torch.jit.trace(model, x[:batch]) if "script" in variant else model
    at = 0

    def step():
        nonlocal at
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(x[at:at + batch]), label[at:at + batch]).backward()
        optimizer.step()
        at = (at + batch) % count

    for _ in range(30):
        step()
    rates = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates) < 3:
        begin, steps = time.perf_counter(), 0
        while time.perf_counter() - begin < 0.25:
            step()
            steps += 1
        rates.append(steps * batch / (time.perf_counter() - begin))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=["fashion-mlp", "fashion-cnn"])
    parser.add_argument("batch", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--variant", default="best")
    args = parser.parse_args()
    prepare_environment(args.threads)
    import torch
    torch.set_num_threads(args.threads)
    variants = ["eager", "eager-foreach", "script", "script-foreach"]
    if args.model == "fashion-cnn":
        variants += ["eager-foreach-nhwc"]
    if args.variant != "best":
        variants = [args.variant]
    trial = args.seconds if len(variants) == 1 else min(1.0, args.seconds)
    rates = {name: measure(torch, args.model, args.batch, trial, name) for name in variants}
    best = max(rates, key=rates.get)
    if len(variants) > 1:
        rates[best] = measure(torch, args.model, args.batch, args.seconds, best)
    print(json.dumps({"peer": f"pytorch {torch.__version__}", "model": args.model,
                      "batch": args.batch, "threads": args.threads, "variant": best,
                      "samples_per_second": rates[best]}), flush=True)


if __name__ == "__main__":
    main()
