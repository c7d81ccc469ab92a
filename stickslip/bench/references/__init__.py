"""Closed-form answers that experiments measure against."""
