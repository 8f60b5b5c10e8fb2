"""What things are. Protocols and values only; no behaviour of other rooms."""
