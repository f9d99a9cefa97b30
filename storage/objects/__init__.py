"""Object stores: an environment over a bucket, and the cache of its segments on this machine."""
