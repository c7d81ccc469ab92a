"""Tables, pictures and pages of stored results."""
