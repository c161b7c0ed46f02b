"""A file that changes: use with @N-."""
from .reply import fault, honest_reply


@fault("etag-change")
def etag_change(r):
    """Another version: other bytes, ETag and date, same size; 412 to the old If-Match."""
    r.change()
    honest_reply(r)


@fault("etag-change-ignored")
def etag_change_ignored(r):
    """Another version, and If-Match is not honoured: only the reply's ETag tells."""
    r.change()
    del r.headers["If-Match"], r.headers["If-None-Match"]
    honest_reply(r)
