"""11. How it looks: the answer in `words`, the `curves`, the `live` display."""
