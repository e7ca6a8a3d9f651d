"""``python -m portal.demo``: the embedded cluster as one process."""

import argparse
import asyncio
import json
import os
import signal
import ssl
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from portal.demo import controllers, tls
from portal.demo.auth import Accounts
from portal.demo.catalog import OPTIONAL, VERSIONS, catalog
from portal.demo.expiry import expire_events
from portal.demo.fleet import check_wish, plant, preferred_version
from portal.demo.journal import DataInUse, Journal, NoJournal, SqliteJournal
from portal.demo.load import Churn, FleetSize, check_churn
from portal.demo.namespaces import found_first, keep_namespaces
from portal.demo.quota import keep_quotas
from portal.demo.server import ApiServer
from portal.demo.store import HISTORY_LIMIT, Store


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m portal.demo", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument(
        "--data", type=Path, help="directory to keep the objects in; without it they are lost"
    )
    parser.add_argument(
        "--fleet", type=check_wish, default="none", help="sample, edge, none, or nodes=N,devices=M,pods=P"
    )
    parser.add_argument(
        "--kubernetes",
        choices=VERSIONS,
        help="whose API versions and gates to serve (default: those of the fleet, else 1.36)",
    )
    parser.add_argument(
        "--without",
        type=_parts,
        default=(),
        help=f"optional parts not to install, separated by commas: {', '.join(OPTIONAL)}",
    )
    parser.add_argument(
        "--device-class-mapping",
        type=_mapping,
        action="append",
        default=[],
        metavar="CLASS=RESOURCE",
        help="under which name queues count the devices of a class; else under its extended resource",
    )
    parser.add_argument("--kubeconfig-out", type=Path, help="where to write the kubeconfig")
    parser.add_argument("--tls", action="store_true", help="serve HTTPS: kubectl sends no token without it")
    parser.add_argument(
        "--history", type=int, default=HISTORY_LIMIT, help="changes kept for watches, per resource"
    )
    parser.add_argument("--bookmark-seconds", type=float, default=60.0)
    parser.add_argument("--no-controllers", action="store_true", help="only the API server")
    parser.add_argument("--no-kubelet", action="store_true", help="Pods are placed, but none runs")
    parser.add_argument(
        "--churn",
        type=check_churn,
        default="",
        help="changes a second of a generated fleet: claims=200,pods=100",
    )
    return parser.parse_args()


def _mapping(text: str) -> tuple[str, str]:
    device_class, found, resource = text.partition("=")
    if not (found and device_class and resource):
        raise argparse.ArgumentTypeError(f"{text!r} is not CLASS=RESOURCE")
    return device_class, resource


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(filter(None, text.split(",")))
    for part in parts:
        if part not in OPTIONAL:
            raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(OPTIONAL)}")
    return parts


def _write_kubeconfig(path: Path, kubeconfig: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    # JSON is YAML; tokens are for the owner only.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(kubeconfig, file, indent=2)
    fresh.replace(path)


def _certificate(arguments: argparse.Namespace) -> tuple[ssl.SSLContext | None, bytes]:
    if not arguments.tls:
        return None, b""
    now = datetime.now(UTC)
    if arguments.data:
        return tls.server_context(arguments.data, arguments.host, now=now)
    with tempfile.TemporaryDirectory() as directory:
        return tls.server_context(Path(directory), arguments.host, now=now)


def _plant_once(store: Store, wish: str) -> None:
    """Plant a fleet into data that has none yet; a crash in between leaves nothing half planted."""
    planted = store.journal.setting("fleet")
    if not planted:
        with store.journal.together():
            plant(store, wish)
            store.journal.set_setting("fleet", wish)
    elif planted != wish:
        text = f"the data directory holds the fleet {planted!r} already; --fleet {wish} has no effect"
        print(text, file=sys.stderr)  # noqa: T201 - a command's answer


async def _work(store: Store, arguments: argparse.Namespace) -> None:
    """Everything that moves by itself, until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(keep_namespaces(store))
        tasks.create_task(keep_quotas(store))
        tasks.create_task(expire_events(store))
        if not arguments.no_controllers:
            tasks.create_task(
                controllers.run(
                    store,
                    kubelet=not arguments.no_kubelet,
                    device_class_mappings=dict(arguments.device_class_mapping),
                )
            )
        if arguments.churn:
            churn = Churn.parse(arguments.churn, store=store, size=FleetSize.parse(arguments.fleet))
            tasks.create_task(churn.run())


async def _serve(arguments: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM; whatever fails inside ends the whole."""
    journal: Journal = SqliteJournal(arguments.data) if arguments.data else NoJournal()
    served = catalog(arguments.kubernetes or preferred_version(arguments.fleet), without=arguments.without)
    store = Store(
        journal=journal,
        history_limit=arguments.history,
        features=served.features,
        installed=served.installed,
    )
    accounts = Accounts.kept_in(journal)
    server = ApiServer(store, accounts, bookmark_seconds=arguments.bookmark_seconds, catalog=served)
    runner = server.runner()
    await runner.setup()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        found_first(store)
        _plant_once(store, arguments.fleet)
        context, certificate = _certificate(arguments)
        await web.TCPSite(runner, arguments.host, arguments.port, ssl_context=context).start()
        url = f"{'https' if context else 'http'}://{arguments.host}:{runner.addresses[0][1]}"
        if arguments.kubeconfig_out:
            _write_kubeconfig(arguments.kubeconfig_out, accounts.kubeconfig(url, certificate=certificate))
        work = asyncio.create_task(_work(store, arguments))
        stopped = asyncio.create_task(stop.wait())
        print(f"listening on {url}", flush=True)  # noqa: T201 - the agreed sign that it is ready
        await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if work.done():
            work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    finally:
        await runner.cleanup()
        store.close()


def main() -> int:
    """Serve until interrupted; 1 with one line of explanation when that is not possible."""
    try:
        asyncio.run(_serve(_arguments()))
    except (DataInUse, OSError) as error:
        print(f"the embedded cluster cannot start: {error}", file=sys.stderr)  # noqa: T201 - a command's answer
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
