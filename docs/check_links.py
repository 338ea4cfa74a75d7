"""Fail where a built page links to nothing: ``python docs/check_links.py docs/_build/html [--external]``.

Looks at every ``href`` of an anchor and every ``src``: the file must exist, and so must the anchor in it.
Links to other sites are counted. With ``--external`` they are asked for, too, which needs a network.
"""

from __future__ import annotations

import argparse
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_SECONDS = 20


@dataclass
class Page(HTMLParser):
    """The anchors and the links of one page."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and (tag, name) != ("link", "href"):
                self.links.append(value)


def read(path: Path) -> Page:
    """A page with its anchors and links."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(root: Path) -> tuple[list[str], set[str]]:
    """What is wrong with links within the site, a line each, and the links to other sites."""
    root = root.resolve()
    pages = {path: read(path) for path in sorted(root.rglob("*.html"))}
    wrong, elsewhere = [], set()
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme in ("http", "https"):
                    elsewhere.add(link.partition("#")[0])
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            where = f"{path.relative_to(root)}: {link}"
            if not target.is_file():
                wrong.append(f"{where}: there is no such file.")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{where}: the page has no such anchor.")
    return wrong, elsewhere


def unanswered(links: set[str]) -> Iterator[str]:
    """Links to other sites that do not answer."""
    for link in sorted(links):
        request = urllib.request.Request(link, headers={"User-Agent": "phimap-check-links"})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS):
                pass
        except (OSError, ValueError) as error:
            yield f"{link}: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="folder of the built pages")
    parser.add_argument("--external", action="store_true", help="ask for links to other sites, too")
    options = parser.parse_args()
    wrong, elsewhere = broken(options.root)
    if options.external:
        wrong += unanswered(elsewhere)
    for line in wrong:
        print(line)
    asked = "asked for" if options.external else "not asked for"
    print(f"{len(wrong)} broken links; {len(elsewhere)} links to other sites, {asked}.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
