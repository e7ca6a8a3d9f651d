"""Short words for tests of selectors."""

from collections.abc import Iterable

from portal.dra.cel import CelCompileError, CelEvaluationError, DeviceView, compile_selector
from portal.dra.quantity import Quantity
from portal.dra.semver import Semver

DRIVER = "dra.example.com"

DEVICE = DeviceView(
    driver=DRIVER,
    attributes={
        "model": "A100",
        "index": 3,
        "healthy": True,
        "version": Semver.parse("1.2.3"),
        "empty": "",
        "ext.example.com/family": "ampere",
    },
    capacities={"memory": Quantity.parse("40Gi"), "ext.example.com/links": Quantity.parse("1500m")},
)
ATTRIBUTES = f'device.attributes["{DRIVER}"]'


def outcome(
    expression: str, device: DeviceView = DEVICE, features: Iterable[str] = (), *, new: bool = False
) -> bool | str:
    """True or False, or the kind of failure with its message: "compile: …" or "evaluation: …".

    With `new` as the API server takes expressions, else as the scheduler does.
    """
    try:
        selector = compile_selector(expression, features=frozenset(features), enforce_estimate=new)
    except CelCompileError as error:
        return f"compile: {error.message}"
    try:
        return selector.evaluate(device)
    except CelEvaluationError as error:
        return f"evaluation: {error.message}"
