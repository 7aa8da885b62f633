"""What we know: the session and everything in it. Frozen values and pure functions; only `Session` changes anything."""
