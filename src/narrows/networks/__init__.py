"""Encoders and decoders, and the layers they are built from.

base        Encoder, Decoder and NetworkConfig
conv        the paper's convolutional networks, and the same idea for images of any size
mlp         fully connected networks
scaling     the user's units to the networks' and back
batches     what is expected of a row in each batch
batchnorm   BatchNorm whose second pass reuses the statistics of the first
upsampling  upsampling and convolution in one layer
pruning     removal of rows and columns from neighbouring layers
"""

from narrows._util.checks import argument, instance_of
from narrows._util.errors import NarrowsError, setting
from narrows._util.memory import within_memory
from narrows._util.text import brief
from narrows.networks.base import Decoder, Encoder, NetworkConfig
from narrows.networks.conv import LARGEST_SIDE, SMALLEST_SIDE, ConvDecoder, ConvEncoder, has_conv_plan
from narrows.networks.mlp import MLPDecoder, MLPEncoder
from narrows.networks.scaling import Scaling

__all__ = ["LARGEST_SIDE", "SMALLEST_SIDE", "Decoder", "Encoder", "NetworkConfig", "Scaling", "build", "has_conv_plan"]

CONFIG = instance_of(NetworkConfig, "a NetworkConfig, such as NetworkConfig('mlp', (20,), n=8)")


def build(config: NetworkConfig) -> tuple[Encoder, Decoder, Scaling]:
    """Build untrained networks; their initial values come from torch's global generator.

    Arguments:
        config: The kind and size of the networks.

    Returns:
        The encoder, the decoder and the scaling around them.

    Raises:
        NarrowsError: The shape does not suit the kind of network, or the networks do not fit into memory.
    """
    if argument("network", config, CONFIG).n == 0:
        raise NarrowsError("n must be at least 1 to build networks; a model has 0 dimensions only after narrow([])")
    sizes = f"{setting('n', config.n)} and {setting('width', config.width)}"
    with within_memory(f"networks with {sizes} on examples of shape {brief(config.shape)}", "use smaller ones"):
        scaling = Scaling(config.output, config.shape, config.blocks, config.batches)
        if config.kind == "conv":
            return ConvEncoder(config), ConvDecoder(config), scaling
        return MLPEncoder(config), MLPDecoder(config), scaling
