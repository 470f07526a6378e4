"""The examples in PyTorch: their data, models, losses and optimizers as Lockstep has them.

An example is a row of EXAMPLES. Weights are a dict of tensors by the names Lockstep's `model.safetensors`
has. Both modules that PyTorch's Debian package brings are passed in, since whether they are there is for a
program to say.
"""
import gzip
import json
import math
import os
import struct

FASHION = "/usr/share/datasets/fashion-mnist/"


def read_safetensors(numpy, path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    kinds = {"F32": numpy.float32, "F64": numpy.float64}
    return {name: numpy.frombuffer(data, kinds[one["dtype"]], offset=one["data_offsets"][0],
                                   count=math.prod(one["shape"])).reshape(one["shape"]).copy()
            for name, one in header.items()}


class Fashion:
    """Fashion-MNIST, of the training pictures or those for tests."""

    def __init__(self, torch, numpy, _path, evaluate):
        def read(name, offset):
            part = "t10k-" if evaluate or not os.path.exists(FASHION + "train-" + name + ".gz") else "train-"
            with gzip.open(FASHION + part + name + ".gz") as file:
                return numpy.frombuffer(file.read(), numpy.uint8, offset=offset)
        self.images = read("images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
        self.labels = read("labels-idx1-ubyte", 8)
        self.torch, self.size = torch, len(self.labels)

    def take(self, which):
        tensor = self.torch.tensor
        return (tensor(self.images[which]).to(self.torch.get_default_dtype()) / 255,
                tensor(self.labels[which]).long())


class Text:
    """Sequences of so many bytes that lie one after another, each predicting the byte after it; nine tenths
    of the text to train, the last to evaluate."""

    def __init__(self, torch, numpy, path, evaluate, tokens):
        data = numpy.fromfile(path, numpy.uint8)
        place = int(0.9 * len(data))
        data = data[place:] if evaluate else data[:place]
        self.size = (len(data) - 1) // tokens
        self.ids = data[:self.size * tokens].reshape(-1, tokens)
        self.labels = data[1:self.size * tokens + 1].reshape(-1, tokens)
        self.torch = torch

    def take(self, which):
        return self.torch.tensor(self.ids[which]).long(), self.torch.tensor(self.labels[which]).long()


class Table:
    """Criteo's format: 13 numbers, of which logarithms are taken, and 26 categories, whose texts' hashes are
    their rows in the tables."""
    NUMBERS, COLUMNS, CATEGORIES = 13, 26, 100_000

    def __init__(self, torch, numpy, path, evaluate):
        with open(path, "rb") as file:
            rows = sum(1 for _ in file)
        place = int(0.9 * rows)
        first, last = (place, rows) if evaluate else (0, place)
        x = numpy.zeros((last - first, self.NUMBERS))
        ids = numpy.zeros((last - first, self.COLUMNS), numpy.int64)
        labels = numpy.zeros((last - first, 1), numpy.float32)
        known = [Rows(column, self.CATEGORIES) for column in range(self.COLUMNS)]
        with open(path, "rb") as file:
            for row, line in enumerate(file):
                if row < first:
                    continue
                if row == last:
                    break
                cells = line.rstrip(b"\r\n").split(b"\t")
                labels[row - first] = float(cells[0])
                x[row - first] = [float(cell or 0) for cell in cells[1:1 + self.NUMBERS]]
                ids[row - first] = [rows[cell] for rows, cell in zip(known, cells[1 + self.NUMBERS:])]
        self.x = (numpy.sign(x) * numpy.log1p(numpy.abs(x))).astype(numpy.float32)
        self.ids, self.labels = ids, labels
        self.torch, self.size = torch, last - first

    def take(self, which):
        kind = self.torch.get_default_dtype()
        return (self.torch.tensor(self.x[which]).to(kind), self.torch.tensor(self.ids[which]),
                self.torch.tensor(self.labels[which]).to(kind))


class Rows(dict):
    """The row of a column's category: SplitMix64 of FNV-1a of its text and the column's number."""
    BITS = (1 << 64) - 1

    def __init__(self, column, categories):
        super().__init__()
        self.column, self.categories = column, categories

    @classmethod
    def mixed(cls, x):
        x = (x + 0x9e3779b97f4a7c15) & cls.BITS
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9 & cls.BITS
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb & cls.BITS
        return x ^ (x >> 31)

    def __missing__(self, text):
        bits = 0xcbf29ce484222325
        for byte in text:
            bits = (bits ^ byte) * 0x100000001b3 & self.BITS
        key = self.mixed(self.mixed(self.column) ^ self.mixed(bits))
        self[text] = self.column * self.categories + key % self.categories
        return self[text]


# Models: from weights to a function of a batch, which returns what the loss is of, a row for each prediction.

def fashion_mlp(torch, weights):
    def outputs(x):
        h = torch.relu(x.flatten(1) @ weights["dense1.weight"] + weights["dense1.bias"])
        return h @ weights["dense2.weight"] + weights["dense2.bias"]
    return outputs


def fashion_cnn(torch, weights):
    f = torch.nn.functional

    def outputs(x):
        kernel = weights["conv1.weight"].permute(3, 2, 0, 1)  # from height, width, in, out
        h = f.max_pool2d(torch.relu(f.conv2d(x, kernel, weights["conv1.bias"])), 2)
        h = h.permute(0, 2, 3, 1).flatten(1)
        return h @ weights["dense1.weight"] + weights["dense1.bias"]
    return outputs


def gpt(heads):
    def model(torch, weights):
        f = torch.nn.functional
        blocks = sum(name.endswith(".qkv.weight") for name in weights)

        def linear(x, name):
            return x @ weights[name + ".weight"] + weights[name + ".bias"]

        def norm(x, name):
            return f.layer_norm(x, x.shape[-1:], weights[name + ".gain"], weights[name + ".bias"], 1e-5)

        def outputs(ids):
            x = f.embedding(ids, weights["embedding1.weight"]) + weights["embedding1.positions"]
            batch, tokens, channels = x.shape
            hidden = torch.triu(torch.full((tokens, tokens), -math.inf), 1)
            for i in range(1, blocks + 1):
                name = f"block{i}"
                # q, k, v of one head, then of the next.
                qkv = linear(norm(x, name + ".norm1"), name + ".qkv")
                q, k, v = qkv.view(batch, tokens, heads, 3, channels // heads).permute(3, 0, 2, 1, 4)
                score = q @ k.transpose(-1, -2) / math.sqrt(channels // heads) + hidden
                h = (torch.softmax(score, -1) @ v).transpose(1, 2).reshape(batch, tokens, channels)
                x = x + linear(h, name + ".proj")
                h = f.gelu(linear(norm(x, name + ".norm2"), name + ".up"), approximate="tanh")
                x = x + linear(h, name + ".down")
            return norm(x, "norm1") @ weights["embedding1.weight"].T
        return outputs
    return model


def ctr(torch, weights):
    def outputs(x, ids):
        rows = torch.nn.functional.embedding(ids, weights["tables.weight"], sparse=True)
        h = torch.cat([x, rows.flatten(1)], 1)
        for i in (1, 2, 3):
            h = h @ weights[f"dense{i}.weight"] + weights[f"dense{i}.bias"]
            if i < 3:
                h = torch.relu(h)
        return h
    return outputs


def of_classes(torch, outputs, label):
    return torch.nn.functional.cross_entropy(outputs.flatten(0, -2), label.flatten())


def of_clicks(torch, outputs, label):
    return torch.nn.functional.binary_cross_entropy_with_logits(outputs, label)


class Adam:
    """Decoupled decay of matrices, gradients clipped by their common length."""

    def __init__(self, torch, weights, rate, beta2=0.999, decay=0.0, clip=0.0):
        self.torch, self.weights, self.rate = torch, weights, rate
        self.beta2, self.decay, self.clip = beta2, decay, clip
        self.moments = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()}

    def update(self, step):
        """From the gradients, which are cleared; the first step is 1."""
        scale = 1.0
        if self.clip:
            length = math.sqrt(sum(float((w.grad.double() ** 2).sum()) for w in self.weights.values()))
            scale = min(1.0, self.clip / length)
        for name, w in self.weights.items():
            m, v = self.moments[name]
            g = w.grad * scale
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(self.beta2).addcmul_(g, g, value=1 - self.beta2)
            change = m / (1 - 0.9 ** step) / ((v / (1 - self.beta2 ** step)).sqrt() + 1e-8)
            if self.decay and w.dim() > 1:
                change = change + self.decay * w
            with self.torch.no_grad():
                w.sub_(change, alpha=self.rate(step))
            w.grad = None


class Adagrad:
    """A table by the rows that a batch touches."""

    def __init__(self, torch, weights, rate):
        self.torch, self.weights, self.rate = torch, weights, rate
        self.squares = {name: torch.zeros_like(w) for name, w in weights.items()}

    def update(self, _step):
        with self.torch.no_grad():
            for name, w in self.weights.items():
                s = self.squares[name]
                if w.grad.is_sparse:
                    g = w.grad.coalesce()
                    rows, g = g.indices()[0], g.values()
                    s.index_add_(0, rows, g * g)
                    w.index_add_(0, rows, g / (s[rows].sqrt() + 1e-10), alpha=-self.rate)
                else:
                    s.addcmul_(w.grad, w.grad)
                    w.addcdiv_(w.grad, s.sqrt() + 1e-10, value=-self.rate)
                w.grad = None


def plain_adam(torch, weights, _steps):
    return Adam(torch, weights, lambda step: 1e-3)


def gpt_adam(torch, weights, steps):
    def rate(step):
        if step <= 100:
            return 1e-3 * step / 100
        return 1e-4 + 9e-4 * 0.5 * (1 + math.cos(math.pi * (step - 101) / (steps - 100)))
    return Adam(torch, weights, rate, 0.99, 0.1, 1.0)


def ctr_adagrad(torch, weights, _steps):
    return Adagrad(torch, weights, 0.02)


class Example:
    """`data(torch, numpy, path, evaluate)` has a size and take(which), of which the last is the labels;
    `optimizer(torch, weights, steps)` has the schedule of so many steps. `double`: losses of steps can be held
    against each other in fp64 alone."""

    def __init__(self, data, batch, model, loss, optimizer, double=False):
        self.data, self.batch, self.model, self.loss, self.optimizer = data, batch, model, loss, optimizer
        self.double = double


def text_of(tokens):
    return lambda torch, numpy, path, evaluate: Text(torch, numpy, path, evaluate, tokens)


EXAMPLES = {
    "fashion-mlp": Example(Fashion, 32, fashion_mlp, of_classes, plain_adam),
    "fashion-cnn": Example(Fashion, 64, fashion_cnn, of_classes, plain_adam),
    "gpt-tiny": Example(text_of(64), 12, gpt(4), of_classes, gpt_adam),
    "gpt-small": Example(text_of(256), 4, gpt(6), of_classes, gpt_adam),
    "ctr": Example(Table, 2048, ctr, of_clicks, ctr_adagrad, double=True),
}
TEXTS, TABLES = ("gpt-tiny", "gpt-small"), ("ctr",)
