"""The check of the documentation's links, on a tiny site."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "check_links.py"


@pytest.fixture
def check(monkeypatch):
    """The script's module."""
    specification = importlib.util.spec_from_file_location("check_links", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "check_links", module)
    specification.loader.exec_module(module)
    return module


def test_files_and_anchors_that_are_missing_are_told(check, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "index.html").write_text('<h1 id="top">A</h1><a href="../one.html#b">up</a>')
    (tmp_path / "one.html").write_text(
        '<h2 id="b">B</h2><a href="#b">here</a><a href="folder/#top">there</a><a href="folder/#none">no anchor</a>'
        '<a href="two.html">no file</a><img src="none.png"><a href="https://example.org/x#y">elsewhere</a>'
        '<a href="mailto:a@example.org">mail</a>'
    )
    wrong, elsewhere = check.broken(tmp_path)
    assert wrong == [
        "one.html: folder/#none: the page has no such anchor.",
        "one.html: two.html: there is no such file.",
        "one.html: none.png: there is no such file.",
    ]
    assert elsewhere == {"https://example.org/x"}


def test_links_to_other_sites_are_asked_for_on_request(check, tmp_path, monkeypatch, capsys):
    (tmp_path / "one.html").write_text('<a href="https://example.org/x">elsewhere</a>')

    def refuse(request, timeout):
        raise OSError(f"{request.full_url} is away")

    monkeypatch.setattr(check.urllib.request, "urlopen", refuse)
    for arguments, code in (([], 0), (["--external"], 1)):
        monkeypatch.setattr(sys, "argv", ["check_links.py", str(tmp_path), *arguments])
        with pytest.raises(SystemExit) as ended:
            check.main()
        assert ended.value.code == code
    assert "0 broken links; 1 links to other sites, not asked for." in capsys.readouterr().out
