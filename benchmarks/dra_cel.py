"""How fast selectors compile and evaluate, and that the worst ones end soon.

    python benchmarks/dra_cel.py [DEVICES]

Prints one line per expression: devices a second, unmemoised and by way of memo keys.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from portal.dra.cel import CelEvaluationError, DeviceView, Selector, compile_selector
from portal.dra.quantity import Quantity
from portal.dra.semver import Semver

DRIVER = "gpu.example.com"

EXPRESSIONS = {
    "driver": f"device.driver == '{DRIVER}'",
    "model": f"device.attributes['{DRIVER}'].model == 'A100'",
    "typical": (
        f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'A100' && "
        f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"
    ),
    "version": f"device.attributes['{DRIVER}'].version.isGreaterThan(semver('1.2.0'))",
    "missing": "device.attributes['other.example.com'].model == 'A100'",
    "optional": f"device.attributes['{DRIVER}'].?index.orValue(0) < 4",
    "regex": f"device.attributes['{DRIVER}'].model.matches('^[AH]100')",
    "bind": f"cel.bind(dra, device.attributes['{DRIVER}'], dra.model in ['A100', 'H100'] && dra.index >= 0)",
    "macro": f"['A100', 'H100', 'L4'].exists(m, m == device.attributes['{DRIVER}'].model)",
}

WORST = {
    "ten nested all()": "[1,2,3,4,5,6,7,8,9,0].all(a, " * 10 + "true" + ")" * 10,
    "long lists": "lists.range(1000).all(x, (lists.range(1000) + lists.range(1000)).size() > 0)",
    "doubling text": "cel.bind(a, 'aaaaaaaaaaaaaaaa', "
    + "".join(
        f"cel.bind({new}, {old}+{old}+{old}+{old}, "
        for old, new in zip("abcdefghijk", "bcdefghijkl", strict=True)
    )
    + "l.size() > 0"
    + ")" * 12,
    "lists of lists": "cel.bind(a, [1,1,1,1,1,1,1,1], "
    + "".join(
        f"cel.bind({new}, [{old},{old},{old},{old},{old},{old},{old},{old}], "
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "i == i"
    + ")" * 9,
    "replace": "'a'.replace('', 'aaaaaaaaaa')" + ".replace('a', 'aaaaaaaaaa')" * 20 + " == ''",
}


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def fleet(count: int) -> list[DeviceView]:
    """Devices of 40 kinds."""
    models = ["A100", "H100", "L4", "T4", "B200"]
    return [
        DeviceView(
            driver=DRIVER,
            attributes={
                "model": models[index % 5],
                "index": index % 8,
                "version": Semver.parse(f"1.{index % 8}.0"),
                "uuid": f"GPU-{index:08d}",
            },
            capacities={"memory": Quantity.parse(f"{(index % 8 + 1) * 10}Gi")},
        )
        for index in range(count)
    ]


def match_all(selector: Selector, devices: list[DeviceView]) -> int:
    """Number of devices that match; errors count as no match."""
    matching = 0
    for device in devices:
        try:
            matching += selector.evaluate(device)
        except CelEvaluationError:
            continue
    return matching


def match_memoised(selector: Selector, devices: list[DeviceView]) -> int:
    """The same by way of memo keys."""
    known: dict[object, bool] = {}
    matching = 0
    for device in devices:
        key = selector.memo_key(device)
        answer = known.get(key)
        if answer is None:
            try:
                answer = selector.evaluate(device)
            except CelEvaluationError:
                answer = False
            known[key] = answer
        matching += answer
    return matching


def run_worst(expression: str, device: DeviceView) -> int:
    """Compile and evaluate once."""
    return match_all(compile_selector(expression), [device])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    devices = fleet(count)
    print(f"{count} devices of 40 kinds")
    for name, expression in EXPRESSIONS.items():
        compiling = timed(functools.partial(compile_selector, expression))
        selector = compile_selector(expression)
        plain = timed(functools.partial(match_all, selector, devices))
        memoised = timed(functools.partial(match_memoised, selector, devices))
        print(
            f"{name:10} compile {compiling * 1e3:6.2f} ms   evaluate {plain / count * 1e6:6.2f} us "
            f"({count / plain:10,.0f}/s)   memoised {count / memoised:10,.0f}/s"
        )
    for name, expression in WORST.items():
        seconds = timed(functools.partial(run_worst, expression, devices[0]))
        print(f"worst case {name:18} {seconds:6.3f} s")


if __name__ == "__main__":
    main()
