"""Archives that cannot be had here, as their documentation and their issue threads tell of them: docs/archives.md."""
import re
import time
import urllib.parse

from .redirects import here
from .reply import Reply, Shared, fault, honest_reply

opened_by = {}      # a dCache ticket: the connection that uses it
windows = {}        # a quota's path: (when it began, how many requests since)


@fault("dcache", whole=True)
def dcache_door(r):
    """A door: to whom has the macaroon A, in the URL or as a token, it names a pool at `other` and a ticket."""
    shown = urllib.parse.parse_qs(urllib.parse.urlsplit(r.path).query).get("authz")
    if shown != ["A"] and r.headers["Authorization"] != "Bearer A":
        r.send(Reply(401, b"", WWW_Authenticate="Basic realm=\"dCache\""))
        return
    name = urllib.parse.urlsplit(r.path).path.rpartition("/")[2]
    back = urllib.parse.quote(here(r, r.server.server_port, ""), safe="")
    r.send(Reply(302, Location=here(r, Shared.ports["other"], f"/dcache-pool/{name}?dcache-http-uuid={r.number}-{r.n}"
                                                              f"&dcache-http-ref={back}")))


@fault("dcache-pool", whole=True)
def dcache_pool(r):
    """A pool: the ticket is good for the first connection that shows it. Others are sent back to the door, without the
    macaroon, which a pool does not know."""
    ticket = re.search(r"uuid=([\w-]+)", r.path)[1]
    with Shared.lock:
        mine = opened_by.setdefault(ticket, r.number) == r.number
    if mine:
        honest_reply(r)
    else:
        name = urllib.parse.urlsplit(r.path).path.rpartition("/")[2]
        r.send(Reply(302, Location=here(r, Shared.ports["port"], f"/dcache/{name}")))


@fault("quota", whole=True)
def quota(r):
    """So many requests in two seconds as the argument says (20); then 429, which tells when to come back, as Zenodo."""
    most = int(r.arg or 20)
    with Shared.lock:
        began, n = windows.get(r.path, (0, 0))
        if time.monotonic() - began > 2:
            began, n = time.monotonic(), 0
        windows[r.path] = began, n + 1
    if n < most:
        honest_reply(r)
    else:
        r.send(Reply(429, b'{"status": 429, "message": "20 per 2 seconds"}', Content_Type="application/json",
                     Retry_After="2", X_RateLimit_Limit=str(most), X_RateLimit_Remaining="0"))


@fault("dodsC", "dap")
def opendap(r):
    """An OPeNDAP service: it wants a suffix that says which answer, and serves no file."""
    r.send(Reply(400, b"Error {\n    code = 400;\n    message = \"Unrecognized request\";\n};\n",
                 Content_Type="text/plain"))


@fault("globus")
def globus(r):
    """Without a token to the login, which is a page at another server; with one the file."""
    if r.headers["Authorization"] == "Bearer A":
        honest_reply(r)
    else:
        r.send(Reply(302, Location=here(r, Shared.ports["other"], "/globus-login?redirect_uri=x", "localhost")))


@fault("globus-login")
def globus_login(r):
    """A page."""
    r.send(Reply(200, b"<!DOCTYPE html>\n<html><head><title>Globus Web App</title></head><body>Log in</body></html>",
                 Content_Type="text/html"))


@fault("dataverse")
def dataverse(r):
    """303 to a signed URL at a store, for a minute; a store takes one range and no other credential."""
    key = urllib.parse.parse_qs(urllib.parse.urlsplit(r.path).query).get("key")
    if key != ["A"]:
        r.send(Reply(403, b'{"status": "ERROR", "code": 403}', Content_Type="application/json"))
        return
    r.send(Reply(303, Location=here(r, Shared.ports["other"],
                                    "/signed/file?X-Amz-Expires=60&X-Amz-Signature=secret", "localhost")))
