"""Pages in a headless Chromium, in a frame as wide as asked: its windows are never narrower than 500 pixels."""

import html
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256

import pytest

from drivetrain.scope.report import chart

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
FITS = "document.documentElement.scrollWidth <= innerWidth"
NUM_REQUESTS = "performance.getEntriesByType('resource').length"


def without_scripts(page):
    """The page less the two scripts that every page brings; its own data, which is no script, is left."""
    scripts, _ = chart.scripts()
    assert page.count(scripts) == 1
    return re.sub('<script type="application/json">([^<]*)</script>', r"<data>\1</data>", page.replace(scripts, ""))


def seen(page, tmp_path, *expressions, width=360):
    """What expressions of JavaScript say of a page in a frame of this width, separated by commas."""
    probe = f"""onload = function look() {{
      if ([...document.querySelectorAll('figure.chart')].some((one) => !one.querySelector('svg')))
        return setTimeout(look, 20);
      parent.document.title = [innerWidth, {", ".join(expressions)}].join();
    }}"""
    digest = b64encode(sha256(probe.encode()).digest()).decode()
    allowed = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)  # no other script runs
    inside = html.escape(allowed.replace("</body>", f"<script>{probe}</script></body>"))
    around = tmp_path / "around.html"
    around.write_text(
        f'<!doctype html><iframe width="{width}" height="2000" frameborder="0" srcdoc="{inside}"></iframe>'
    )
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={tmp_path / 'browser'}", f"--window-size={width + 500},2000"]
    command += ["--virtual-time-budget=20000"]  # milliseconds in which charts may be drawn, however busy the machine
    command += ["--dump-dom", around.as_uri()]
    for _ in range(3):  # on a busy machine it has been seen to end before the frame was there, which tells nothing
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        titles = re.findall("<title>(.*)</title>", done.stdout[: done.stdout.index("<iframe")])
        if titles:
            break
    (title,) = titles
    assert title.startswith(f"{width},")
    return html.unescape(title).removeprefix(f"{width},")
