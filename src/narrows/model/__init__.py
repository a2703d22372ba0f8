"""The models.

vae      VAE, GatedVAE (one gate per latent dimension) and gated_vae(), which builds one around built-in networks
checks   what the encoder and the decoder must fulfil, tried out on the first examples
storage  save_model, load_model and read_description
"""
