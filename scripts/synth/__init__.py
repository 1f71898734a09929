"""Open synthesis of the card, block by block: what `make timing` and `make area` share."""
