"""Sphinx configuration."""

from __future__ import annotations

import warnings
from importlib.metadata import version as installed

project = "phimap"
author = "The phimap developers"
copyright = author
release = installed("phimap")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
# Furo is light and dark, by the reader's system or choice, and made for phones.
html_theme = "furo"
html_title = f"phimap {release}"
html_static_path = ["_static"]
html_css_files = ["width.css"]
# Inventories of our own, so that a build needs no network: see inventories/make.py.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3/", "inventories/python.inv"),
    "numpy": ("https://numpy.org/doc/stable/", "inventories/numpy.inv"),
    "scipy": ("https://docs.scipy.org/doc/scipy/", "inventories/scipy.inv"),
    "sklearn": ("https://scikit-learn.org/stable/", "inventories/scikit-learn.inv"),
}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_member_order = "bysource"
# The tables of members would repeat scikit-learn's own; autosummary pages list what is ours.
numpydoc_show_class_members = False
# Types of parameters link to their pages, here and elsewhere.
numpydoc_xref_param_type = True
numpydoc_xref_aliases = {
    "ndarray": "numpy.ndarray",
    "CSR matrix": "scipy.sparse.csr_matrix",
    "Generator": "numpy.random.Generator",
    "RandomState": "numpy.random.RandomState",
    "SeedSequence": "numpy.random.SeedSequence",
    "Kernel": "phimap.kernels.Kernel",
    "boolean": "bool",
    # What our inventories lack stays words.
    **{
        word: word
        for word in (
            "array-like",
            "array_like",
            "bool",
            "callable",
            "False",
            "generator",
            "iterable",
            "mapping",
            "sequence",
            "True",
        )
    },
}
numpydoc_xref_ignore = {"of", "shape", "or", "and", "optional", "default", "the", "in", "where", "with", "array"}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo_data\.py",
    # The page of the gallery is ours, with sections; it shows its thumbnails itself.
    "copyfile_regex": r"index\.rst",
    # Without it each small gallery warns; the names of what examples use are kept there.
    "backreferences_dir": "gallery/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
}

# Plots are drawn to files, where showing them does nothing.
warnings.filterwarnings("ignore", message=".*non-interactive.*", category=UserWarning)
