"""Where cells run: processes of this machine, or Ray."""
