"""What we can do: typed operations. They prepare and perform; whether they may is decided elsewhere."""
