"""The page of a study: tables, plots by parameter, failures by cause, films."""

from stickslip.studies.report.page import write

__all__ = ["write"]
