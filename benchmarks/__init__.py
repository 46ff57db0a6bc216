"""Speed, measured side by side on this machine: ``make bench``. Ratios travel, absolute figures do not."""
