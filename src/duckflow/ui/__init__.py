"""What people see: the terminal, cards, progress and machine-readable output. Reads events; decides nothing."""
