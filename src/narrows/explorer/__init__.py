"""The explorer: a local page to put one's hands on the latent space of a run, or of a front's models.

`models.py` has what is asked of a model, `inputs.py` the inputs that go through it, `uploads.py` those that a user
brings, `answers.py` what the page may ask for and what it gets, `page.py` the page, `server.py` the server: Python's
own, on 127.0.0.1 alone, with nothing to install.
"""
