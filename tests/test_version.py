"""One version in all the places that name it."""

from __future__ import annotations

import re
import tomllib

from tests.support.pages import ROOT


def test_every_place_names_the_same_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert citation is not None
    assert citation[1] == version
    assert changes is not None
    # A development version gathers the changes of the release that it becomes.
    assert changes[1] == version.split(".dev")[0]
    # README need not name it.
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"phimap(?:==| v?)(\d+\.\d[\w.]*)", readme)) <= {version}
