"""A file for each system; each has its class as `PEER`."""
