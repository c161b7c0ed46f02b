"""Web pages in place of the file: a login that has ended, an application that answers whatever is asked."""
import gzip

from .redirects import here
from .reply import Reply, Shared, fault

PAGE = b"""<!DOCTYPE html>
<html><head><meta charset="utf-8">
<title>Sign in \xc2\x9b31m&middot; Example</title></head><body><form method="post"></form></body></html>
"""


def page(r, status=200):
    reply = Reply(status, PAGE, Content_Type="text/html; charset=utf-8", Cache_Control="no-store")
    if status == 206:
        end = min(r.ranges[0][1], len(PAGE)) if r.ranges else len(PAGE)
        reply.set_body(PAGE[:end])
        reply.headers |= {"Content-Range": f"bytes 0-{end - 1}/{len(PAGE)}", "ETag": '"page"'}
    return reply


@fault("login")
def login(r):
    """200 and a web page."""
    r.send(page(r))


@fault("login-206")
def login_206(r):
    """The page as a file of its own: ranges are honoured, and it has an ETag."""
    r.send(page(r, 206))


@fault("login-untyped")
def login_untyped(r):
    """200 and the page, without a Content-Type."""
    reply = page(r)
    del reply.headers["Content-Type"]
    r.send(reply)


@fault("login-octets")
def login_octets(r):
    """The same, called application/octet-stream, on ranges too."""
    reply = page(r, 206 if r.ranges else 200)
    reply.headers["Content-Type"] = "application/octet-stream"
    r.send(reply)


@fault("login-chunked")
def login_chunked(r):
    """The page in chunks, its first of blanks; so long that no limit of small files takes it."""
    r.send(Reply(200, Content_Length=None, Transfer_Encoding="chunked", Content_Type="TEXT/HTML"), body=False)
    for piece in (b"\r\n  ", PAGE, b"<!-- " + bytes(200_000).replace(b"\0", b"x") + b" -->"):
        r.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
    r.write(b"0\r\n\r\n")


@fault("login-redirect")
def login_redirect(r):
    """302 to a page at `other`, on another host name."""
    r.send(Reply(302, Location=here(r, Shared.ports["other"], "/login/realms/example?state=secret", "localhost")))


@fault("login-json")
def login_json(r):
    """200 and a word to programs, by the server itself."""
    r.send(Reply(200, b'{"error": "login required"}\n', Content_Type="application/json; charset=utf-8"))


@fault("login-packed", "login-packed-html", "login-packed-json")
def login_packed(r):
    """The page, which the server has packed though it was not to; of no type, or called so."""
    name = r.path.strip("/").split("@")[0].split("/")[0].rpartition("-")[2]
    types = {"html": {"Content_Type": "text/html"}, "json": {"Content_Type": "application/json"}}
    r.send(Reply(200, gzip.compress(PAGE), Content_Encoding="gzip", **types.get(name, {})))


@fault("nothing")
def nothing(r):
    """200, without type, length or a byte."""
    r.close_connection = True
    r.send(Reply(200, Content_Length=None))


@fault("login-until-token", whole=True)
def login_until_token(r):
    """The page, unless `Bearer B` asks from request ARGUMENT on; before it `Bearer A` will do."""
    want = "B" if r.arg and r.n >= int(r.arg) else "A"
    r.send(r.honest() if r.headers["Authorization"] == f"Bearer {want}" else page(r))


@fault("page-but-data")
def page_but_data(r):
    """The page for each name that does not end in .h5, as an application that answers whatever is asked."""
    r.send(r.honest() if r.path.endswith(".h5") else page(r))


@fault("html-file")
def html_file(r):
    """The file, called text/html by a server that knows no better."""
    reply = r.honest()
    if "Content-Type" in reply.headers and reply.status in (200, 206) and "multipart" not in reply.headers["Content-Type"]:
        reply.headers["Content-Type"] = "text/html"
    r.send(reply)


@fault("block-file", "block-html-file", whole=True)
def block_file(r):
    """A small file whose user block, of ARGUMENT bytes, begins as a web page, by a server that does no ranges."""
    block = int(r.arg or 512)
    r.data, r.ranges = b"<html>".ljust(block) + r.data, None
    reply = r.honest()
    if "html" in r.path:
        reply.headers["Content-Type"] = "text/html"
    r.send(reply)


@fault("html-small-file")
def html_small_file(r):
    """The same by a server that does no ranges."""
    r.ranges = None
    reply = r.honest()
    reply.headers["Content-Type"] = "text/html"
    r.send(reply)


@fault("listing")
def listing(r):
    """What a server shows of a directory."""
    body = b"<html>\r\n<head><title>Index of /data/</title></head>\r\n<body><h1>Index of /data/</h1></body></html>"
    r.send(Reply(200, body, Content_Type="text/html"))
