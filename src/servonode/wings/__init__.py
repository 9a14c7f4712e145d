"""What the core can do without: each wing is a folder that imports what it needs of the core, and no other wing."""
