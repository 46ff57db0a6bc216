"""The fast path in a worker process: delivery of prefetched messages, and the thread pool.

``install_fast_path`` sets it up where prefetch is on. Without it none of these modules is imported.
"""
