"""How Sphinx builds the site from these pages, from the notebooks and from the docstrings: `make docs`.

What a page needs comes with it: no address of another site is loaded, and nothing is built that the repository's own
pages do not show, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util.docutils import SphinxDirective

import discreet

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

ROOT = Path(__file__).parents[1]
PAGES = {"README": "/index.md"}
"""Of files above this folder that have no page of their own."""

project = "discreet"
author = "The discreet developers"
copyright = "The discreet developers, Apache-2.0"
release = version = discreet.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
# Docstrings are written for `help`, where one backtick is code.
default_role = "code"
highlight_language = "text"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # scikit-learn adds these to every estimator, with references to pages of its own
    "exclude-members": "set_fit_request, set_score_request, set_predict_request, set_transform_request",
}
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# `records` in the signature of a method is a parameter, whatever has attributes of that name.
suppress_warnings = ["ref.python"]

html_theme = "furo"
html_title = "discreet"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
pygments_style = "bw"


class Drawing(SphinxDirective):
    """A flow chart of mermaid, of which only arrows are read, as the package draws a network."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The picture; who is looked up at stands above."""
        arrows = re.findall(r"(\w+) --> (\w+)", "\n".join(self.content))
        names = dict.fromkeys(name for arrow in arrows for name in arrow)
        boxes = [discreet.Variable(name, ("imports", "is imported")) for name in names]
        above = {name: [upper for lower, upper in arrows if lower == name] for name in names}
        picture = discreet.Network(boxes, above).to_svg()
        told = "; ".join(f"{lower} imports {upper}" for lower, upper in arrows)
        picture = re.sub("<title>Bayesian network.*?</title>", f"<title>{len(arrows)} imports</title>", picture)
        return [nodes.raw("", re.sub("<desc>.*?</desc>", f"<desc>{told}</desc>", picture), format="html")]


def write_formula(self: HTML5Translator, node: nodes.math) -> None:
    """MathML, which browsers set by themselves: no script, no font and no address of another site."""
    self.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def write_displayed_formula(self: HTML5Translator, node: nodes.math_block) -> None:
    """The same on lines of its own; it scrolls by keys, too, where it is wider than a phone."""
    formula = convert(node.astext(), display="block")
    self.body.append(f'<div class="formula" tabindex="0" role="math">{formula}</div>')
    raise nodes.SkipNode


def take_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Show files that stand above this folder as pages of the site; a list of pages leads to each of them."""
    above = r"\]\((?:\.\./)*(CHANGELOG|CONTRIBUTING|README|SECURITY|VISION)\.md"
    folder, _, name = page.rpartition("/")
    if folder == "project":
        source[0] = (ROOT / f"{name.upper()}.md").read_text(encoding="utf-8").replace("](docs/", "](/")
    if name == "README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
    source[0] = re.sub(above, lambda found: "](" + PAGES.get(found[1], f"/project/{found[1].lower()}.md"), source[0])


def open_to_all(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Let keys reach what scrolls on a phone, and say the level of the headings of lists of pages."""
    body = context.get("body", "").replace("<pre>", '<pre tabindex="0">')
    named = '<div tabindex="0" role="region" aria-label="table" class="table-wrapper'
    context["body"] = body.replace('<div class="table-wrapper', named)
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> None:
    """Register what this file adds."""
    app.connect("source-read", take_page)
    app.connect("html-page-context", open_to_all, priority=900)  # behind the theme, which makes the tree
    app.add_directive("mermaid", Drawing)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_displayed_formula, None))
