"""The settings of `make docs`: the Markdown pages of this folder, the docstrings through api.md, and the notebooks.

The notebooks are shown as `make notebooks` stored them, with their outputs; nothing is executed here.

The build uses no network: names from other projects stay plain text instead of links, so only the names of narrows
itself must resolve.
"""

from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring, NumpyDocstring

from narrows import __version__

project = "narrows"
author = "The narrows authors"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
nitpick_ignore_regex = [
    ("py:.*", r"(?!narrows\.).*"),
    ("py:.*", r"narrows\.[\w.]+\.(_\w+|Model|Layer|ShownVAE|InlinePage)"),  # these have no page
]
suppress_warnings = [
    "myst.header",  # tables are pasted as the benchmarks print them, headings included
    "ref.python",  # words of a numpydoc type, such as shape, are also attributes of several classes
]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True

default_role = "code"  # docstrings are plain text with `names` in them
add_module_names = False
python_maximum_signature_line_length = 100
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"narrows {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["notebooks.css"]


def read_sections(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Format the sections of a class or function: numpydoc where a heading is underlined, Google style elsewhere.

    napoleon as an extension would also read the lines below fields, and take "fast: ..." there for a type.
    """
    if what in ("class", "exception", "function", "method"):
        style = NumpyDocstring if any(set(line.strip()) == {"-"} for line in lines) else GoogleDocstring
        lines[:] = style(lines, Config(napoleon_use_rtype=False), app, what, name, obj, options).lines()


def setup(app: Sphinx) -> None:
    """Format docstrings before they are parsed."""
    app.connect("autodoc-process-docstring", read_sections)
