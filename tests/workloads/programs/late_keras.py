# Keras under MultiWorkerMirroredStrategy, as keras_fit.py. Rank argv[1], if there is one, sleeps for 80 ms before each
# batch from step 20 on.
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf
import tf_keras as keras

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, slow = json.loads(os.environ["TF_CONFIG"])["task"]["index"], int(sys.argv[1])


class Late(keras.callbacks.Callback):
    step = 0

    def on_train_batch_begin(self, batch, logs=None):
        Late.step += 1
        time.sleep(0.1 if rank == slow and Late.step >= 20 else 0.02)

    def on_train_batch_end(self, batch, logs=None):
        if rank == 0:
            print(f"step {Late.step} loss {logs['loss']:.9g}", flush=True)


keras.utils.set_random_seed(1)
x = np.random.default_rng(1).normal(size=(960, 32)).astype("float32")
y = (x[:, :16].sum(1) > x[:, 16:].sum(1)).astype("int32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(96).repeat()
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(2)])
    model.compile(optimizer=keras.optimizers.Adam(0.01),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data, epochs=1, steps_per_epoch=100, verbose=0, callbacks=[Late()])
time.sleep(1)  # see ddp.py
