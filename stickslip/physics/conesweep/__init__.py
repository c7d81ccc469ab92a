"""The cone sweep: closed-form contact that sticks. See README.md."""
