"""jax_lstm.py: gradients of JAX's cuDNN LSTM with JAX's own checks on, beside those of its reference."""

import os
import sys

os.environ["JAX_ENABLE_CHECKS"] = "1"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.experimental import rnn  # noqa: E402

# Batch, steps, inputs, units, layers, and whether it has both directions.
NETWORKS = [(1, 1, 2, 1, 4, False), (4, 1, 1, 6, 4, True), (8, 20, 32, 64, 2, True), (16, 50, 64, 256, 1, False)]
# cuDNN may round the products to TF32.
TOLERANCE = 2e-3


def losses(batch, steps, inputs, hidden, layers, both):
    """The same loss by cuDNN and by the reference, as functions of the weights and the input."""
    shape = dict(input_size=inputs, hidden_size=hidden, num_layers=layers, dropout=0.0, bidirectional=both)
    state = jnp.zeros(((1 + both) * layers, batch, hidden))
    lengths = jnp.full((batch,), steps, jnp.int32)

    def total(results):
        return sum((result * result).sum() for result in results)

    def by_cudnn(weights, x):
        return total(rnn.lstm(x, state, state, weights, lengths, **shape))

    def by_reference(weights, x):
        parts = rnn.unpack_lstm_weights(weights, inputs, hidden, layers, both)
        return total(rnn.lstm_ref(x, state, state, *parts, lengths, **shape))

    return by_cudnn, by_reference


def distance(ours, wanted):
    return float(jnp.linalg.norm(ours - wanted) / jnp.linalg.norm(wanted))


def main():
    wrong = 0
    for network in NETWORKS:
        batch, steps, inputs, hidden, layers, both = network
        by_cudnn, by_reference = losses(*network)
        worst = 0.0
        for seed in range(3):
            of_weights, of_x = jax.random.split(jax.random.PRNGKey(seed))
            weights = rnn.init_lstm_weight(of_weights, inputs, hidden, layers, both)
            x = jax.random.normal(of_x, (batch, steps, inputs))
            gradients = [jax.grad(loss, (0, 1))(weights, x) for loss in (by_cudnn, by_reference)]
            worst = max(worst, *map(distance, *gradients))
        is_wrong = not worst < TOLERANCE
        wrong += is_wrong
        print(f"{'WRONG' if is_wrong else 'ok':6} LSTM of {hidden} units, {layers} layers, {batch} rows, {steps} steps: "
              f"gradients {worst:.1e} off")  # fmt: skip
    return wrong > 0


sys.exit(main())
