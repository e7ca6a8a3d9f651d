"""The commands of `python -m portal.dra` and their arguments."""

import argparse
import sys
from collections.abc import Iterable, Sequence

import msgspec

from portal.dra.cli.answers import EXIT_STATUS, Answer, answer, answer_line, input_error
from portal.dra.cli.loading import Inventory, UnreadableError, features_of, load
from portal.dra.features import Features, UnknownFeature
from portal.dra.matching import BadExpression


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 3 does not fit, 2 error, 4 undecided."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except (UnreadableError, UnknownFeature) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except BrokenPipeError:
        # The reader has seen enough; let nothing else be flushed into the closed pipe.
        sys.stdout = None  # the interpreter flushes what stands here when it exits
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m portal.dra",
        description="What Kubernetes' dynamic resource allocation would do, from manifests.",
        epilog="Exit status: 0 done or allocated, 3 does not fit, 2 error, 4 undecided (search too long).",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    match = commands.add_parser("match", help="evaluate a CEL expression for each device")
    _inputs(match)
    match.add_argument("--expression", "-e", required=True, metavar="CEL")
    match.set_defaults(run=_match)
    allocate = commands.add_parser("allocate", help="allocate claims, in the order given")
    _inputs(allocate)
    _claims(allocate)
    allocate.add_argument(
        "--batch",
        action="store_true",
        help="read one scenario per line from standard input, write one answer per line",
    )
    allocate.set_defaults(run=_allocate)
    explain = commands.add_parser("explain", help="say where claims fit, or why they do not")
    _inputs(explain)
    _claims(explain)
    explain.set_defaults(run=_explain)
    return parser


def _inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--file", action="append", default=[], metavar="FILE", help="YAML or JSON; - is stdin"
    )
    gates = parser.add_mutually_exclusive_group()
    gates.add_argument(
        "--kubernetes", metavar="VERSION", help="feature gates as in this version, such as 1.36"
    )
    gates.add_argument("--features", metavar="A,B", help="exactly these feature gates")


def _claims(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--claim", action="append", default=[], metavar="[NS/]NAME")
    parser.add_argument("--node", metavar="NAME")


def _match(arguments: argparse.Namespace) -> int:
    inventory = _load(arguments)
    found = inventory.fleet(_features(arguments)).match(arguments.expression)
    if isinstance(found, BadExpression):
        raise UnreadableError(f"expression, line {found.line}, column {found.column}: {found.message}")
    for item in found:
        verdict = item.verdict
        result = f"error: {verdict.error}" if verdict.error else "match" if verdict.matches else "no match"
        sys.stdout.write(f"{'/'.join(item.device.id)}\t{result}\n")
    return 0


def _allocate(arguments: argparse.Namespace) -> int:
    if arguments.batch:
        return _batch(sys.stdin.buffer, _features(arguments))
    if not arguments.claim:
        raise UnreadableError("which claim? Give --claim [NAMESPACE/]NAME, or --batch")
    inventory = _load(arguments)
    result = answer(
        inventory, names=arguments.claim, node=arguments.node or None, features=_features(arguments)
    )
    _write(result, indent=2)
    return EXIT_STATUS[result["outcome"]]


def _batch(lines: Iterable[bytes], default: Features) -> int:
    """Every line gets its answer, at once; a bad line ends nothing."""
    for line in lines:
        if line.strip():
            try:
                result = answer_line(line, default=default)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with one scenario, the next goes on
                result = input_error(f"{type(error).__name__}: {error}")
            _write(result)
            sys.stdout.flush()
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from portal.dra.cli.telling import tell

    if not arguments.claim:
        raise UnreadableError("which claim? Give --claim [NAMESPACE/]NAME")
    inventory = _load(arguments)
    fleet = inventory.fleet(_features(arguments))
    status = 0
    for name in arguments.claim:
        text, outcome = tell(fleet, inventory.claim(name), node=arguments.node or None)
        sys.stdout.write(text)
        status = max(status, EXIT_STATUS[outcome])
    return status


def _load(arguments: argparse.Namespace) -> Inventory:
    if not arguments.file:
        raise UnreadableError("which objects? Give -f FILE, once or several times")
    inventory = load(arguments.file)
    for complaint in inventory.complaints:
        sys.stderr.write(f"warning: {complaint}\n")
    return inventory


def _features(arguments: argparse.Namespace) -> Features:
    gates = None if arguments.features is None else [arguments.features]
    return features_of(kubernetes=arguments.kubernetes, gates=gates)


def _write(result: Answer, *, indent: int = 0) -> None:
    raw = msgspec.json.encode(result)
    sys.stdout.write((msgspec.json.format(raw, indent=indent) if indent else raw).decode() + "\n")
