"""Commands: how they are declared, checked, approved and carried out."""
