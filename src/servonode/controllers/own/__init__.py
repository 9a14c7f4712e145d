"""Controllers of the user's own: plain Python that gives the inputs, behind the interface of a law."""
