"""What Python is told of warnings where tests run texts of their own in another process."""

STRICT = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")
"""All are errors but that of Python 3.15 about forks beside threads, which some texts make on purpose."""
