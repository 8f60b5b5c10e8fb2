"""Guard-rails for small models: what a message asks for, what counts as evidence, and what is done about a slip."""
