"""The sides of the comparison. Each does the same work; its module's docstring tells the settings it does it with."""
