"""Guard-rails for small models: the intent of a message, evidence for answers, and corrections of mistakes."""
