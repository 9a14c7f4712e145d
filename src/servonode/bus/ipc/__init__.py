"""State and command between the nodes of one computer: ZMTP 3 by hand over Unix sockets; README.md has the reason."""
