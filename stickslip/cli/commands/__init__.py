"""The options of each command, one module per command; what is slow to import is imported when a command is called."""
