#!/usr/bin/env python3
"""Steady-state training of an example with PyTorch: the peer of `lockstep bench train`.

torch_train.py MODEL BATCH THREADS [--seconds S] [--variant NAME|best] [--core NAME|best] [--table FILE] [--ddp RANKS]

MODEL is fashion-mlp, fashion-cnn, gpt-tiny, gpt-small or ctr. Prints one JSON object with
samples_per_second (of a GPT, sequences): the median of windows of 0.25 s, of the fastest variant (eager or
TorchScript forward, single or for-each optimizer, memory format; of ctr, PyTorch's optimizer or one that updates
the rows a batch touches); and flops_per_second, what a product of 1024³ reaches. OpenBLAS takes kernels of a
generic processor for one that is newer than itself: those it is told to take (`core`) are the fastest of that product
that the processor has instructions for. Data are random and in memory,
batches are slices, so that nothing but training is timed; ctr takes the first rows of a table of `lockstep make-data ctr`, since how often categories repeat is part
of its work. With --ddp so many processes train together over Gloo, a batch each, for a few steps, and what is printed is
the memory of the largest: its proportional share of what processes map (PSS), at most.
"""
import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# glibc returning memory to the system between steps halves the CNN; a core type or cache size that the shell
# forces may halve OpenBLAS. Both read their settings at start, hence the second exec.
SETTINGS = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824",
            "MALLOC_TOP_PAD_": "268435456"}
GPTS = {"gpt-tiny": (4, 128, 4, 64), "gpt-small": (6, 384, 6, 256)}  # blocks, channels, heads, tokens
CORES = {"own": (), "Haswell": ("avx2", "fma"),  # OpenBLAS's names, and the instructions their kernels take
         "SkylakeX": ("avx512f", "avx512bw", "avx512dq", "avx512vl"),
         "Cooperlake": ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16")}
VARIANTS = {
    "fashion-mlp": ["eager", "eager-foreach", "script", "script-foreach"],
    "fashion-cnn": ["eager", "eager-foreach", "script", "script-foreach", "eager-foreach-nhwc"],
    "gpt-tiny": ["eager", "eager-foreach", "script-foreach"],
    "gpt-small": ["eager", "eager-foreach", "script-foreach"],
    "ctr": ["eager", "rows"],
}


def environment_of(threads, core):
    out = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    out.update(SETTINGS, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    if core != "own":
        out["OPENBLAS_CORETYPE"] = core
    return out


def fastest_core():
    with open("/proc/cpuinfo", encoding="ascii") as lines:
        flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    speeds = {}
    for core, instructions in CORES.items():
        if all(one in flags for one in instructions):
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--product-speed"], capture_output=True,
                                  text=True, timeout=60, env=environment_of(1, core), check=True)
            speeds[core] = float(done.stdout)
    return max(speeds, key=speeds.get)


def fashion(torch, args, variant):
    nn = torch.nn
    if args.model == "fashion-mlp":
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    else:
        model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 10))
    model = args.wrap(model)
    batch = args.batch
    count = max(8 * batch, 2048) // batch * batch
    x = torch.rand(count, 1, 28, 28)
    label = torch.randint(0, 10, (count,))
    if "nhwc" in variant:
        model = model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach="foreach" in variant)
    loss_of = nn.CrossEntropyLoss()
    forward = torch.jit.trace(model, x[:batch]) if "script" in variant else model

    def step(i):
        at = i * batch % count
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(x[at:at + batch]), label[at:at + batch]).backward()
        optimizer.step()
    return step


def gpt(torch, args, variant):
    nn, f = torch.nn, torch.nn.functional
    blocks, channels, heads, tokens = GPTS[args.model]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
            self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
            self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

        def forward(self, x, hidden):
            b = x.shape[0]
            q, k, v = self.qkv(self.norm1(x)).view(b, tokens, 3, heads, channels // heads).permute(2, 0, 3, 1, 4)
            score = q @ k.transpose(-1, -2) * (channels // heads) ** -0.5 + hidden
            y = torch.softmax(score, -1) @ v
            x = x + self.proj(y.transpose(1, 2).reshape(b, tokens, channels))
            return x + self.down(f.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(256, channels)
            self.positions = nn.Parameter(torch.zeros(tokens, channels))
            self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
            self.norm = nn.LayerNorm(channels)
            self.register_buffer("hidden", torch.triu(torch.full((tokens, tokens), -1e9), 1))

        def forward(self, ids):
            x = self.table(ids) + self.positions
            for block in self.blocks:
                x = block(x, self.hidden)
            return self.norm(x) @ self.table.weight.T

    model = args.wrap(Gpt())
    matrices = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": others, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.99),
                                  foreach="foreach" in variant)
    ids = torch.randint(0, 256, (8 * args.batch, tokens))
    label = torch.randint(0, 256, (8 * args.batch, tokens))
    forward = torch.jit.trace(model, ids[:args.batch]) if "script" in variant else model

    def step(i):
        at = i % 8 * args.batch
        optimizer.zero_grad(set_to_none=True)
        loss = f.cross_entropy(forward(ids[at:at + args.batch]).view(-1, 256), label[at:at + args.batch].view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return step


def ctr(torch, args, variant):
    import numpy
    sys.path.insert(0, os.path.join(HERE, "..", "oracle"))
    import peer
    batches = 24
    with tempfile.NamedTemporaryFile() as some, open(args.table, "rb") as table:
        for _ in range(batches * args.batch * 10 // 9 + 10):
            some.write(table.readline())
        some.flush()
        data = peer.Table(torch, numpy, some.name, False)
    widths = [data.NUMBERS + data.COLUMNS * 16, 64, 32, 1]
    weights = {"tables.weight": torch.randn(data.COLUMNS * data.CATEGORIES, 16) * 0.01}
    for i in (1, 2, 3):
        weights[f"dense{i}.weight"] = torch.randn(widths[i - 1], widths[i]) * widths[i - 1] ** -0.5
        weights[f"dense{i}.bias"] = torch.zeros(widths[i])
    for w in weights.values():
        w.requires_grad_()
    made = [data.take(slice(i * args.batch, (i + 1) * args.batch)) for i in range(batches)]
    outputs = peer.ctr(torch, weights)
    if variant == "rows":
        own = peer.Adagrad(torch, weights, 0.02)

        def update():
            own.update(0)
    else:
        optimizer = torch.optim.Adagrad(list(weights.values()), lr=0.02)

        def update():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def step(i):
        x, ids, label = made[i % batches]
        peer.of_clicks(torch, outputs(x, ids), label).backward()
        update()
    return step


def measure(torch, args, seconds, variant):
    torch.manual_seed(1)
    step = (gpt if args.model in GPTS else ctr if args.model == "ctr" else fashion)(torch, args, variant)
    begin, i = time.perf_counter(), 0
    while i < 30 and time.perf_counter() - begin < max(1.0, seconds / 3):
        step(i)
        i += 1
    rates = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates) < 3:
        begin, first = time.perf_counter(), i
        while time.perf_counter() - begin < 0.25:
            step(i)
            i += 1
        rates.append((i - first) * args.batch / (time.perf_counter() - begin))
    return statistics.median(rates)


def proportional_bytes():
    with open("/proc/self/smaps_rollup", encoding="ascii") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def ddp_rank(args):
    import torch
    torch.set_num_threads(args.threads)
    torch.distributed.init_process_group("gloo")
    args.wrap = torch.nn.parallel.DistributedDataParallel
    torch.manual_seed(1)
    step = (gpt if args.model in GPTS else fashion)(torch, args, "eager")
    most = 0
    for i in range(6):
        step(i)
        torch.distributed.barrier()  # the others are as far, and share what is shared
        most = max(most, proportional_bytes())
        torch.distributed.barrier()
    print(json.dumps({"proportional_bytes": most}), flush=True)


def ddp(args):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(environment_of(args.threads, "own"), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                       WORLD_SIZE=str(args.ddp))
    ranks = [subprocess.Popen([sys.executable, *sys.argv], stdout=subprocess.PIPE, text=True,
                              env=dict(environment, RANK=str(rank))) for rank in range(args.ddp)]
    try:
        said = [rank.communicate(timeout=300)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    print(json.dumps({"model": args.model, "batch": args.batch, "ranks": args.ddp,
                      "proportional_bytes": max(json.loads(one)["proportional_bytes"] for one in said)}), flush=True)


def product_speed(torch):
    """FLOP/s of a product of 1024³, the fastest of ten."""
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    least = math.inf
    for _ in range(10):
        begin = time.perf_counter()
        a @ b
        least = min(least, time.perf_counter() - begin)
    return 2 * 1024 ** 3 / least


def main():
    if sys.argv[1:] == ["--product-speed"]:
        import torch
        torch.set_num_threads(1)
        return print(product_speed(torch))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=list(VARIANTS))
    parser.add_argument("batch", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--variant", default="best")
    parser.add_argument("--core", choices=["best", *CORES], default="best")
    parser.add_argument("--table")
    parser.add_argument("--ddp", type=int, default=0)
    args = parser.parse_args()
    args.wrap = lambda model: model
    if args.ddp:
        if args.model == "ctr":
            parser.error("ctr has no DDP")
        return ddp_rank(args) if "RANK" in os.environ else ddp(args)
    if args.model == "ctr" and not args.table:
        parser.error("ctr needs --table")
    if args.core == "best":
        args.core = fastest_core()
    environment = environment_of(args.threads, args.core)
    if environment != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv, "--core", args.core], environment)
    import torch
    torch.set_num_threads(args.threads)
    variants = VARIANTS[args.model] if args.variant == "best" else [args.variant]
    trial = args.seconds if len(variants) == 1 else min(1.0, args.seconds)
    rates = {name: measure(torch, args, trial, name) for name in variants}
    best = max(rates, key=rates.get)
    if len(variants) > 1:
        rates[best] = measure(torch, args, args.seconds, best)
    print(json.dumps({"peer": f"pytorch {torch.__version__}", "model": args.model,
                      "batch": args.batch, "threads": args.threads, "variant": best, "core": args.core,
                      "samples_per_second": rates[best], "flops_per_second": product_speed(torch)}),
          flush=True)


if __name__ == "__main__":
    main()
