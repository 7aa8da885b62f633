"""What we may do: paths, risk, the gate, checkpoints, secrets. Measures and decides; never asks by itself."""
