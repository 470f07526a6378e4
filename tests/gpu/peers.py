#!/usr/bin/env python3
"""PyTorch training what Lockstep is measured with on a GPU: the peer of `lockstep bench train --set training.backend=cuda`.

peers.py [--device cuda|cpu] [--seconds S] --model NAME:BATCH [--model …]

NAME is fashion-mlp, fashion-cnn or gpt2-124m. Prints JSON objects, one a line: versions; then for each model and variant
samples_per_second, the median of windows, and peak_bytes, what PyTorch allocated at most. Variants are eager and compiled
(torch.compile; of the small ones with CUDA graphs, mode "reduce-overhead"). gpt2-124m has scaled-dot-product attention,
bf16 by autocast and a fused AdamW; the others fp32 without TF32 and a fused Adam. Data are random and on the device, so
that nothing but training is timed. What does not run is a line that says why.
"""
import argparse
import gc
import json
import statistics
import sys
import time

SHAPES = {"gpt2-124m": (12, 768, 12, 1024, 50304)}  # blocks, channels, heads, tokens, vocabulary


def fashion(torch, name, batch, device):
    nn = torch.nn
    if name == "fashion-mlp":
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    else:
        model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5408, 10))
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **fused(device))
    x = torch.rand(8, batch, 1, 28, 28, device=device)
    label = torch.randint(0, 10, (8, batch), device=device)

    def loss_of(forward, i):
        return nn.functional.cross_entropy(forward(x[i % 8]), label[i % 8])
    return model, optimizer, loss_of, None


def fused(device):
    return {"fused": True} if device == "cuda" else {}


def gpt(torch, name, batch, device):
    nn, f = torch.nn, torch.nn.functional
    blocks, channels, heads, tokens, vocabulary = SHAPES[name]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
            self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
            self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

        def forward(self, x):
            b = x.shape[0]
            q, k, v = self.qkv(self.norm1(x)).view(b, tokens, 3, heads, channels // heads).permute(2, 0, 3, 1, 4)
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).reshape(b, tokens, channels))
            return x + self.down(f.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(vocabulary, channels)
            self.positions = nn.Parameter(torch.zeros(tokens, channels))
            self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
            self.norm = nn.LayerNorm(channels)
            nn.init.normal_(self.table.weight, std=0.02)

        def forward(self, ids, label):
            x = self.table(ids) + self.positions
            for block in self.blocks:
                x = block(x)
            logits = self.norm(x) @ self.table.weight.T
            return f.cross_entropy(logits.view(-1, vocabulary).float(), label.view(-1))

    model = Gpt().to(device)
    matrices = [w for w in model.parameters() if w.dim() > 1]
    others = [w for w in model.parameters() if w.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=6e-4, betas=(0.9, 0.95), **fused(device))
    ids = torch.randint(0, vocabulary, (4, batch, tokens), device=device)
    label = torch.randint(0, vocabulary, (4, batch, tokens), device=device)

    def loss_of(forward, i):
        with torch.autocast(device, dtype=torch.bfloat16):
            return forward(ids[i % 4], label[i % 4])
    return model, optimizer, loss_of, 1.0


def measure(torch, args, name, batch, variant):
    cuda = args.device == "cuda"
    torch.manual_seed(1)
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model, optimizer, loss_of, clip = (gpt if name in SHAPES else fashion)(torch, name, batch, args.device)
    forward = model
    if variant == "compiled":
        forward = torch.compile(model, mode=None if name in SHAPES else "reduce-overhead")

    def step(i):
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward, i).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    def wait():
        if cuda:
            torch.cuda.synchronize()

    for i in range(10):
        step(i)
    wait()
    begin = time.perf_counter()
    for i in range(3):
        step(i)
    wait()
    each = max(1, int(args.seconds / 5 / ((time.perf_counter() - begin) / 3)))
    rates = []
    for _ in range(5):
        begin = time.perf_counter()
        for i in range(each):
            step(i)
        wait()
        rates.append(each * batch / (time.perf_counter() - begin))
    return {"samples_per_second": statistics.median(rates), "windows": rates,
            "peak_bytes": torch.cuda.max_memory_allocated() if cuda else None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--model", action="append", required=True)
    args = parser.parse_args()
    try:
        import torch
    except ImportError as missing:
        sys.exit(f"PyTorch cannot be used: {missing}")
    cuda = args.device == "cuda"
    if cuda and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    print(json.dumps({"event": "versions", "pytorch": torch.__version__, "cuda": torch.version.cuda,
                      "gpu": torch.cuda.get_device_name() if cuda else None}), flush=True)
    for one in args.model:
        name, batch = one.rsplit(":", 1)
        for variant in ("eager", "compiled"):
            line = {"event": "peer", "model": name, "batch": int(batch), "variant": variant}
            try:
                line.update(measure(torch, args, name, int(batch), variant))
            except Exception as why:  # a variant that this PyTorch cannot run is none; the others are
                line["why"] = f"{type(why).__name__}: {why}"[:400]
            gc.collect()
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
