"""L0 gates, on latent dimensions and on hidden layers.

l0      the gates: their probability, the antithetic pair, ARM and DisARM
layer   Gate, a layer of gates, and gate(), which puts one behind any layer
narrow  narrow(), which removes what the gates closed from both neighbouring layers
"""
