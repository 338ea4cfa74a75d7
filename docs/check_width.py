"""Fail where a built page is wider than its window: ``python docs/check_width.py docs/_build/html``.

Every page is opened in headless Chromium at the width of a phone and at that of a desk. All pages share one browser: a
page of this script shows them one after the other in a frame of the width, measures, and posts what it found. Formulas
are measured as MathJax draws them where the network gives MathJax, and as text where it does not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WIDTHS = (390, 1280)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

PROBE = """<!doctype html><title>probe</title><body><script>
const PAGES = __PAGES__, WIDTHS = __WIDTHS__;
const frame = document.body.appendChild(document.createElement("iframe"));
frame.style = "height: 800px; border: 0";
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

function scrolls(element, root) {
  for (let above = element.parentElement; above && above !== root; above = above.parentElement) {
    if (frame.contentWindow.getComputedStyle(above).overflowX !== "visible") return true;
  }
  return false;
}

function wide() {
  const root = frame.contentDocument.documentElement, found = [];
  for (const element of root.querySelectorAll("article *")) {
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > root.clientWidth + 1 && !scrolls(element, root)) {
      const text = element.textContent.trim().slice(0, 50).replace(/\\s+/g, " ");
      found.push(`<${element.tagName.toLowerCase()} class="${element.className}"> ${text}`);
    }
  }
  return found.slice(0, 3);
}

async function measure(page, width) {
  frame.style.width = width + "px";
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = page;
  await Promise.race([loaded, wait(20000)]);
  if (frame.contentWindow.MathJax?.startup?.promise) await frame.contentWindow.MathJax.startup.promise;
  await wait(50);
  const root = frame.contentDocument.documentElement;
  return {page, width, scroll: root.scrollWidth, window: root.clientWidth, wide: wide()};
}

(async () => {
  for (const page of PAGES) {
    for (const width of WIDTHS) {
      let found;
      try { found = await measure(page, width); } catch (error) { found = {page, width, failed: String(error)}; }
      await fetch("/found", {method: "POST", body: JSON.stringify(found)});
    }
  }
  await fetch("/over", {method: "POST"});
})();
</script>"""


class Desk(SimpleHTTPRequestHandler):
    """Gives the pages and the probe, and takes what the probe found."""

    probe = b""
    found: list[dict[str, Any]] = []
    over = threading.Event()

    def do_GET(self) -> None:
        if self.path != "/probe":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.probe)
        return None

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/over":
            self.over.set()
        else:
            self.found.append(json.loads(text))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        """Stay silent."""


def measure(folder: Path, names: list[str], browser: str, seconds: float) -> list[dict[str, Any]]:
    """Widths of the pages `names` of `folder`, of each at every width of a window."""
    Desk.probe = (
        PROBE.replace("__PAGES__", json.dumps([f"/{name}" for name in names]))
        .replace("__WIDTHS__", json.dumps(WIDTHS))
        .encode()
    )
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), partial(Desk, directory=str(folder))) as server,
        tempfile.TemporaryDirectory() as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        # In a container the sandbox of Chromium has no rights and shared memory is small.
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        address = f"http://127.0.0.1:{server.server_port}/probe"
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "--window-size=1400,900", "--remote-debugging-port=0", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            Desk.over.wait(seconds)
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
    return Desk.found


def main() -> int:
    """Measure, tell what is too wide, and say by the exit status whether anything was."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="what Sphinx has built")
    parser.add_argument("--browser", default=next(filter(shutil.which, BROWSERS), None))
    parser.add_argument("--seconds", type=float, default=600.0, help="for all pages together")
    options = parser.parse_args()
    if options.browser is None:
        sys.exit(f"error: found none of {', '.join(BROWSERS)}. Install one, or name it by --browser.")
    names = sorted(
        str(path.relative_to(options.folder))
        for path in options.folder.rglob("*.html")
        if "_static" not in path.parts and "_modules" not in path.parts
    )
    if not names:
        sys.exit(f"error: {options.folder} has no pages. Build them: make docs.")
    found = measure(options.folder.resolve(), names, options.browser, options.seconds)
    n_wide = 0
    for one in found:
        if one.get("failed") or one["scroll"] > one["window"]:
            n_wide += 1
            told = one.get("failed") or f"{one['scroll']} pixels; " + "; ".join(one["wide"])
            print(f"{one['page'][1:]} at {one['width']} pixels: {told}")
    missing = len(names) * len(WIDTHS) - len(found)
    print(f"{len(names)} pages at {' and '.join(map(str, WIDTHS))} pixels: {n_wide} too wide, {missing} not measured.")
    return 1 if n_wide or missing else 0


if __name__ == "__main__":
    sys.exit(main())
