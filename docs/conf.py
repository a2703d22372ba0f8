"""How `make docs` builds the site: the Markdown pages of this folder, and the docstrings through api.md.

The build takes nothing from the network: other projects' names stay plain text instead of links, so only names of
narrows itself are asked to resolve.
"""

from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring

from narrows import __version__

project = "narrows"
author = "The narrows authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
nitpick_ignore_regex = [("py:.*", r"(?!narrows\.).*"), ("py:.*", r"narrows\.(own\.Model|cutting\.Layer)")]
suppress_warnings = ["myst.header"]  # tables are pasted as the benchmarks print them, headings included
myst_heading_anchors = 3

default_role = "code"  # docstrings are plain text with `names` in them
add_module_names = False
python_maximum_signature_line_length = 100
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"narrows {release}"
html_copy_source = False


def read_numpydoc(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Read the sections of a class; as an extension, napoleon would take "fast: ..." below a field for its type."""
    if what == "class":
        lines[:] = NumpyDocstring(lines, Config(), app, what, name, obj, options).lines()


def setup(app: Sphinx) -> None:
    """Ask for docstrings before they are parsed."""
    app.connect("autodoc-process-docstring", read_numpydoc)
