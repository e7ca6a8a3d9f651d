"""The main job from end to end, as `make smoke` walks it."""

import re

import pytest

from tests import smoke

pytestmark = [pytest.mark.xdist_group("system"), pytest.mark.timeout(300), pytest.mark.nodatabase]


def test_every_step_of_the_main_job_holds(capsys: pytest.CaptureFixture[str]) -> None:
    status = smoke.run(kubeconfig=None)
    told = capsys.readouterr().out
    assert status == 0, told
    # A line with its time for every step, and one each for the start and the end.
    assert len(re.findall(r"^ *\d+\.\d\d s  ", told, re.MULTILINE)) == len(smoke.Walk.STEPS) + 2
