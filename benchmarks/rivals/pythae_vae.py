"""pythae's VAE in its own trainer, with the paper's networks written the plain way (no gates, no bound)."""

import logging
import tempfile
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rivals.literal import decoder_of, encoder_of


class Pythae:
    """Its trainer works in epochs, so an epoch is made as long as the steps to be measured."""

    def __init__(self, images: np.ndarray, n: int, batch: int) -> None:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        from pythae.data.datasets import BaseDataset
        from pythae.models import VAE, VAEConfig
        from pythae.models.base.base_utils import ModelOutput
        from pythae.models.nn import BaseDecoder, BaseEncoder
        from pythae.trainers import BaseTrainer, BaseTrainerConfig

        shape = (images.shape[3], images.shape[1], images.shape[2])

        class Encoder(BaseEncoder):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.layers = encoder_of(shape, 2 * n)

            def forward(self, x: Tensor) -> object:
                mean, log_variance = self.layers(x).chunk(2, dim=1)
                return ModelOutput(embedding=mean, log_covariance=log_variance)

        class Decoder(BaseDecoder):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.layers = decoder_of(shape, n)

            def forward(self, z: Tensor) -> object:
                return ModelOutput(reconstruction=self.layers(z))

        model = VAE(VAEConfig(input_dim=shape, latent_dim=n), Encoder(), Decoder())
        config = BaseTrainerConfig(
            output_dir=tempfile.mkdtemp(), num_epochs=1, learning_rate=1e-3, no_cuda=True,
            per_device_train_batch_size=batch, per_device_eval_batch_size=batch,
        )  # fmt: skip
        self.batch = batch
        self.data = torch.from_numpy(images).permute(0, 3, 1, 2).float().div(255).contiguous()
        self.make: Any = lambda x: BaseTrainer(model, BaseDataset(x, torch.zeros(len(x))), training_config=config)
        self.trainer: Any = None
        self.steps = 0

    def run(self, steps: int) -> None:
        """Train for an epoch of this many batches; the trainer for it is made when the number changes."""
        if steps != self.steps:
            self.trainer, self.steps = self.make(self.data[: steps * self.batch]), steps
            self.trainer.prepare_training()
        self.trainer.train_step(1)
