"""The explorer: a local page with a slider for each latent dimension of a run's model, or of a front's models.

models     a model's slider ranges, codes, decodings and errors
inputs     the test inputs and uploads that can go through it
uploads    a user's image, made into an input
handlers   the requests that the page may send, and their responses
page       the page (templates/explorer.html and assets/)
server     a server on 127.0.0.1 only, from Python's standard library
"""
