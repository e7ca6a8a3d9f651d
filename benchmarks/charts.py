"""How long charts take: on the server over a month of intervals, and in Chromium while a timeline is zoomed
and moved.

    python -m benchmarks.charts [--intervals 100000] [--no-browser]

The database is one of its own (SQLite, or what DATABASE_URL names). The browser draws 10,000 bars; frames are
timed by the page itself, from one animation frame to the next.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from benchmarks._bench import ROOT, clock, desk, load, percentile

REPEATS = 5
FRAMES = 120
MOVES = ("zoom", "pan")
MOVE = """async ([frames, move]) => {
  const timeline = claimdeskCharts.timelines[0], times = [];
  let last = performance.now();
  for (let step = 0; step < frames; step++) {
    const forth = step % 60 < 30;
    if (move === "zoom") timeline.zoom(forth ? 0.9 : 1 / 0.9, 0.7);
    else timeline.pan(forth ? 0.02 : -0.02);
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--intervals", type=int, default=10_000)
    parser.add_argument("--no-browser", action="store_true")
    options = parser.parse_args()
    with desk() as directory:
        _measure(options.intervals, directory, browser=not options.no_browser)


def _measure(size: int, directory: str, *, browser: bool) -> None:
    from django.utils import timezone

    from benchmarks._world import fill
    from claims.models import Allocation

    fill(now=timezone.now(), intervals=size)
    print(f"\n{Allocation.objects.count():,} intervals in a month, {load()}")
    for name, work in _works().items():
        times = []
        for _ in range(REPEATS):
            with clock() as passed:
                work()
            times.append(passed.wall * 1000)
        print(f"  {name:32} median {percentile(times, 50):8.1f} ms   worst {max(times):8.1f} ms")
    if browser:
        _browse(directory)


def _works() -> dict[str, Callable[[], Any]]:
    """What the pages do, without templates."""
    from django.utils import timezone

    from claims.history.curves import Grid
    from claims.history.intervals import HistoryFilter
    from claims.history.occupancy import occupancy
    from claims.history.timeline import timeline
    from claims.money.monthly import monthly_costs
    from claims.waiting.claims import waits
    from portal.accounts.models import User

    now, ada = timezone.now(), User.objects.get(username="ada")
    grid = Grid.until(now, length=timedelta(days=30), bucket=timedelta(hours=6))
    week = now - timedelta(days=7)
    return {
        "occupancy, a month": lambda: occupancy(grid=grid, now=now),
        "waiting times, a month": lambda: waits(start=now - timedelta(days=30), now=now),
        "cost by month, twelve": lambda: monthly_costs(user=ada, now=now, months=12),
        "timeline, a week by device": lambda: timeline(
            wanted=HistoryFilter(), start=week, end=now, now=now, viewer=ada, resolution=151_200_000
        ),
        "timeline, a month by device": lambda: timeline(
            wanted=HistoryFilter(), start=now - timedelta(days=30), end=now, now=now, viewer=ada,
            resolution=648_000_000,
        ),
    }  # fmt: skip


def _browse(directory: str) -> None:
    """Frames while the history's timeline of a month is zoomed and moved."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    environment = os.environ | {"CLAIMDESK_DEBUG": "true", "CLAIMDESK_DATA_DIR": directory}
    address = "127.0.0.1:8899"
    command = [sys.executable, "manage.py", "runserver", address, "--noreload"]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    page.goto(f"http://{address}/accounts/login/")
                    break
                except Exception:  # noqa: BLE001 - not listening yet
                    time.sleep(0.5)
            page.fill("#id_login", "ada")
            page.fill("#id_password", "ada")
            page.click("main button[type=submit]")
            page.goto(f"http://{address}/history/")
            page.locator(".cd-timeline [data-do=month]").click()
            loaded = "claimdeskCharts.timelines[0].lanes.reduce((sum, lane) => sum + lane.bars.length, 0)"
            while page.evaluate(loaded) < 5_000 and time.monotonic() < deadline:
                time.sleep(0.2)
            bars, lanes = page.evaluate(loaded), page.evaluate("claimdeskCharts.timelines[0].lanes.length")
            elements = page.evaluate(
                "claimdeskCharts.timelines[0].chart.getZr().storage.getDisplayList(true).length"
            )
            print(f"  {bars:,} bars on {lanes} lanes; {elements} elements on the canvas; {load()}")
            for move in MOVES:
                times = page.evaluate(MOVE, [FRAMES, move])
                print(
                    f"  {move:5} median frame {percentile(times, 50):6.1f} ms, "
                    f"95 % {percentile(times, 95):6.1f} ms, longest {max(times):6.1f} ms"
                )
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
