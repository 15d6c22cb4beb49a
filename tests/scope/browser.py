"""Pages in a headless Chromium, in a frame as wide as asked: its windows are never narrower than 500 pixels."""

import html
import re
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
FITS = "document.documentElement.scrollWidth <= innerWidth"
NUM_REQUESTS = "performance.getEntriesByType('resource').length"


def seen(page, tmp_path, *expressions, width=360):
    """What expressions of JavaScript say of a page in a frame of this width, separated by commas."""
    probe = (
        f"<script>onload = () => {{ parent.document.title = [innerWidth, {', '.join(expressions)}].join() }}</script>"
    )
    inside = html.escape(page.replace("</body>", probe + "</body>"))
    around = tmp_path / "around.html"
    around.write_text(
        f'<!doctype html><iframe width="{width}" height="2000" frameborder="0" srcdoc="{inside}"></iframe>'
    )
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={tmp_path / 'browser'}", f"--window-size={width + 500},2000"]
    command += ["--dump-dom", around.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    (title,) = re.findall("<title>(.*)</title>", done.stdout[: done.stdout.index("<iframe")])
    assert title.startswith(f"{width},")
    return title.removeprefix(f"{width},")
