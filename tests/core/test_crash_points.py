"""Every write that is made under a lock has a name, and somebody has died behind it."""

import re
from pathlib import Path

CPP = Path(__file__).parents[2] / "cpp"


def test_every_point_at_which_a_process_may_be_killed_is_asked_for_by_the_test_that_kills_at_them():
    headers = "".join(path.read_text() for path in sorted(CPP.rglob("*.hpp")))
    names = set(re.findall(r'DRIVETRAIN_(?:LOCKED_WRITE|CRASH_POINT)\(\s*"([^"]+)"', headers))
    assert len(names) > 50
    (asked_for,) = re.findall(
        r"for \(const char\* name : \{([^}]+)\}", (CPP / "tests/test_crash_points.cpp").read_text()
    )
    assert set(re.findall(r'"([^"]+)"', asked_for)) == names
