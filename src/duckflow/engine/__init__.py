"""The flow: one cycle of understand, gather, execute, evaluate, and the one dispatcher everything acts through."""
