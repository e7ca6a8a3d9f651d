"""People at work, all at once: what a page costs the web server, and how many it serves.

The whole desk runs over an embedded cluster, as in ``make demo``; people who are signed in open pages one
after the other, in the mix that a day has: ``python -m benchmarks.load [--people 8] [--seconds 30]``. The
waiting times are those of this machine, which serves and asks at the same time; the processor time of the web
server is the figure to plan with.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._bench import load, percentile
from portal.management.people import PASSWORD
from portal.stack import Part, Stack, free_port
from tests.visitor import Visitor

# Page → how often, of a hundred. Those with {device} open one of the list.
MIX = {
    "/": 18,
    "/devices/": 14,
    "/devices/?state=free&sort=-name": 8,
    "/devices/?q=h100": 6,
    "{device}": 12,
    "/requests/": 10,
    "/requests/new/": 8,
    "/catalogue/": 6,
    "/history/": 5,
    "/cost/": 4,
    "/clusters/": 3,
    "/api/v1/devices/?limit=100": 6,
}
PEOPLE = ("rhea", "mika", "leo", "ada", "finn")
READY_SECONDS = 120.0


@dataclass
class Seen:
    """What one page's visits were like: seconds and bytes of each."""

    seconds: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    failures: int = 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--people", type=int, default=8, help="how many work at the same time")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fleet", default="sample", help="of the embedded cluster, as its --fleet")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="claimdesk-load-") as directory:
        stack = Stack(Path(directory), free_port(), free_port(), fleet=options.fleet)
        try:
            _start(stack)
            seen, passed, busy = _work(stack, people=options.people, seconds=options.seconds)
            _tell_memory(stack)
        finally:
            stack.stop()
    return _tell(seen, passed=passed, busy=busy, people=options.people)


def _start(stack: Stack) -> None:
    stack.claim_directory()
    stack.start_valkey()
    stack.start_cluster()
    for command in (("migrate", "--verbosity", "0"), ("sample",)):
        _manage(stack, *command)
    stack.wait_for_cluster()
    _manage(
        stack,
        *("cluster", "add", "berlin", "--kubeconfig", str(stack.cluster_kubeconfig), "--context", "portal"),
    )
    stack.start_portal()
    stack.wait_for_web()
    visitor = Visitor(stack.url)
    visitor.sign_in(PEOPLE[0], PASSWORD)
    deadline = time.monotonic() + READY_SECONDS
    while not _devices(visitor):
        if time.monotonic() > deadline:
            raise TimeoutError("no devices in the list")
        time.sleep(0.5)


def _manage(stack: Stack, *arguments: str) -> None:
    command = [sys.executable, "manage.py", *arguments]
    subprocess.run(command, env=stack.environment, check=True, stdout=subprocess.DEVNULL)


def _devices(visitor: Visitor) -> list[str]:
    return re.findall(r'href="(/devices/\d+/)"', visitor.get("/devices/").response.text)


def _work(stack: Stack, *, people: int, seconds: float) -> tuple[dict[str, Seen], float, float]:
    """What each page was like, the seconds that passed, and processor seconds of the web server in them."""
    visitors = []
    for index in range(people):
        visitor = Visitor(stack.url)
        visitor.sign_in(PEOPLE[index % len(PEOPLE)], PASSWORD)
        visitors.append(visitor)
    devices = _devices(visitors[0])
    seen: dict[str, Seen] = defaultdict(Seen)
    lock = threading.Lock()
    until = time.monotonic() + seconds

    def visit(visitor: Visitor, seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < until:
            (page,) = chance.choices(list(MIX), weights=list(MIX.values()))
            path = chance.choice(devices) if page == "{device}" else page
            begun = time.perf_counter()
            response = visitor.session.get(f"{stack.url}{path}", timeout=60)
            took = time.perf_counter() - begun
            with lock:
                seen[page].seconds.append(took)
                seen[page].size.append(len(response.content))
                seen[page].failures += response.status_code >= 500

    web = stack.part("web")
    before, begun = _processor_seconds(web), time.perf_counter()
    threads = [threading.Thread(target=visit, args=(v, index)) for index, v in enumerate(visitors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen, time.perf_counter() - begun, _processor_seconds(web) - before


def _processor_seconds(part: Part) -> float:
    """Of a process and its children, until now."""
    ticks = 0
    for directory in _processes(part):
        fields = (directory / "stat").read_text().rpartition(") ")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _processes(part: Part) -> list[Path]:
    """What the system tells of a process and its children: their directories below /proc."""
    assert part.process is not None
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = (entry / "stat").read_text().rpartition(") ")[2].split()[1]
        except OSError:
            continue
        if part.process.pid in (int(entry.name), int(parent)):
            found.append(entry)
    return found


def _tell_memory(stack: Stack) -> None:
    """What the processes hold at the end, each with its children; what they share is counted once."""
    for part in stack.parts:
        if part.name == "cluster":
            continue
        held = 0
        for directory in _processes(part):
            told = (directory / "smaps_rollup").read_text().split("Pss:")[1]
            held += int(told.split()[0])
        print(f"memory of {part.name:10} {held / 1024:6.0f} MiB")


def _tell(seen: dict[str, Seen], *, passed: float, busy: float, people: int) -> int:
    answers = sum(len(page.seconds) for page in seen.values())
    failures = sum(page.failures for page in seen.values())
    print(f"{people} people for {passed:.0f} s, {load()}: {answers} answers, {answers / passed:.1f}/s")
    print(f"processor time of the web server: {1000 * busy / answers:.1f} ms for one answer")
    print(f"{'page':36} {'visits':>6} {'median':>8} {'p95':>8} {'kB':>6}")
    for path in MIX:
        page = seen[path]
        if len(page.seconds) < 2:
            continue
        median, late = (1000 * percentile(page.seconds, percent) for percent in (50, 95))
        size = sum(page.size) / len(page.size) / 1000
        print(f"{path:36} {len(page.seconds):6} {median:5.0f} ms {late:5.0f} ms {size:6.0f}")
    if failures:
        print(f"{failures} answers were errors of the desk")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
