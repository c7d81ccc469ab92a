"""Contact physics: `base` holds the interface, one folder or file a method."""
