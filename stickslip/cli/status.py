"""Exit statuses."""

OK = 0
"""All went well."""
FAILED = 1
"""The command ran, but its result cannot be trusted, is unusable or could not be written."""
USAGE = 2
"""The input was wrong: the message says what, and how to fix it."""
INTERRUPTED = 130
"""Ctrl-C."""
