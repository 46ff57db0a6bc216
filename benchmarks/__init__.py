"""Speed, measured side by side on this machine (``make bench``).

Ratios hold on other machines, absolute figures do not.
"""
