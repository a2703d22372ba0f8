"""8. Training: settings (`config`), the loop, evaluation, checkpoints; `entry` has `train` and `resume`."""
