"""The command `stickslip`, one module per command."""
