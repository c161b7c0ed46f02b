"""Refusals, and who is let in."""
import base64

from .reply import Reply, Shared, fault, honest_reply


@fault("400", "401", "403", "404", "410", "416", "500", "501", "502", "504", "520", "522")
def status(r):
    """The status of its name."""
    r.send(Reply(int(r.path[1:4]), b"so it is"))


@fault("endless-error")
def endless_error(r):
    """500, and a text that does not end."""
    r.send(Reply(500, Content_Length=None, Transfer_Encoding="chunked"), body=False)
    r.endless(b"sorry " * 1000, chunked=True)


@fault("429", "503")
def busy(r):
    """With Retry-After: 1, or the argument."""
    r.send(Reply(int(r.path[1:4]), b"later", Retry_After=r.arg or "1"))


@fault("limit")
def limit(r):
    """403 with Retry-After, as some services say that one asks too often."""
    r.send(Reply(403, b"rate limit exceeded", Retry_After=r.arg or "1"))


@fault("controls")
def controls(r):
    """401 whose words would steer a terminal: C1 controls, one byte each and as UTF-8, and a change of direction."""
    said = b'error_description="no \x9b31m red \xc2\x9b32m \xe2\x80\xae but \xc3\xa9"'.decode("latin-1")
    r.send(Reply(401, b"", WWW_Authenticate=f"Bearer {said}"))


@fault("token", "token-403", whole=True)
def token(r):
    """401 unless `Bearer A`; after as many good requests as the argument says, `Bearer B` instead; -403: with 403."""
    with Shared.lock:
        good = sum(n["status"] not in (401, 403, None) for n in Shared.requests[r.path])
    want = "A" if r.arg is None or good < int(r.arg) else "B"
    if r.headers["Authorization"] == f"Bearer {want}":
        honest_reply(r)
    else:
        status = 403 if r.path.startswith("/token-403") else 401
        r.send(Reply(status, b"who?", WWW_Authenticate='Bearer realm="liar"'))


@fault("token-echo")
def token_echo(r):
    """401, and what was sent comes back in body and header."""
    sent = r.headers["Authorization"] or ""
    r.send(Reply(401, sent.encode(), WWW_Authenticate=f'Bearer error="invalid_token", error_description="no good: {sent}"'))


@fault("basic")
def basic(r):
    """401 unless name and password are `reader` and `pass word`."""
    if r.headers["Authorization"] == "Basic " + base64.b64encode(b"reader:pass word").decode():
        honest_reply(r)
    else:
        r.send(Reply(401, b"who?", WWW_Authenticate='Basic realm="liar"'))
