"""Speed on this machine, side by side (``make bench``).

Ratios hold on other machines, absolute figures do not.
"""
