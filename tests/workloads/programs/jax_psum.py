# JAX over several processes: each has its part of the batch, and gradients are averaged with pmean.
import os
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.distributed.initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
                           process_id=int(os.environ["JAX_PROCESS_ID"]))
mesh = Mesh(np.array(jax.devices()), ("data",))
everywhere, parts = PartitionSpec(), PartitionSpec("data")


def loss_of(weights, x, y):
    return jnp.mean((jnp.tanh(x @ weights["in"]) @ weights["out"] - y) ** 2)


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=(everywhere, parts, parts), out_specs=(everywhere, everywhere),
         check_vma=False)
def train(weights, x, y):
    loss, gradient = jax.value_and_grad(loss_of)(weights, x, y)
    gradient = jax.lax.pmean(gradient, "data")
    return jax.tree.map(lambda w, g: w - 0.05 * g, weights, gradient), jax.lax.psum(loss, "data") / mesh.size


one, two = jax.random.split(jax.random.key(1))
weights = {"in": 0.1 * jax.random.normal(one, (16, 32)), "out": 0.1 * jax.random.normal(two, (32, 1))}
weights = jax.device_put(weights, NamedSharding(mesh, everywhere))
data = np.random.default_rng(100 + jax.process_index())
for step in range(1, int(sys.argv[1]) + 1):
    x = data.normal(size=(32, 16)).astype("float32")
    y = x[:, :1] * x[:, 1:2] + x[:, 2:3]
    batch = [jax.make_array_from_process_local_data(NamedSharding(mesh, parts), part) for part in (x, y)]
    weights, loss = train(weights, *batch)
    if jax.process_index() == 0:
        print(f"step {step} loss {float(loss):.9g}")
