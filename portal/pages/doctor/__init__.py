"""What is wrong with this installation, and what to do about it: `manage.py doctor`.

Every check gives one or more `Result`s; none raises for what it was made to find. What cannot be looked at,
because something else is broken, says so and is not called well.
"""

from portal.pages.doctor.examination import examine
from portal.pages.doctor.results import Result, State

__all__ = ["Result", "State", "examine"]
