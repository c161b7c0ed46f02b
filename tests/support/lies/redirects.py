"""Redirects."""
import time

from .reply import Reply, Shared, fault, honest_reply


def here(r, port, path, host=None):
    scheme = "http" if port == Shared.ports["http"] or not Shared.contexts else "https"
    return f"{scheme}://{host or r.headers['Host'].rpartition(':')[0]}:{port}{path}"


@fault("redirect", "redirect-307")
def redirect(r):
    """To /ok/ at `other` under another host name (localhost), which must not get the Authorization."""
    code = 307 if r.path.startswith("/redirect-307") else 302
    r.send(Reply(code, Location=here(r, Shared.ports["other"], "/ok/redirected", "localhost")))


@fault("redirect-ticket")
def redirect_ticket(r):
    """To /ticket/N-NAME at `other`, which answers as many requests as the argument says (3), then 403."""
    name = r.path.partition("?")[0].rpartition("/")[2]
    r.send(Reply(302, Location=here(r, Shared.ports["other"], f"/ticket:{r.arg or 3}/{r.n}-{name}?sign=secret")))


@fault("ticket", whole=True)
def ticket(r):
    """Good for as many requests as the argument says (3), then 403: where redirect-ticket sends to."""
    if r.n <= int(r.arg or 3):
        honest_reply(r)
    else:
        r.send(Reply(403, b"expired"))


@fault("portal")
def portal(r):
    """After 100 ms to /pass:N/COUNT-NAME at `other`, N being the argument (60)."""
    time.sleep(0.1)
    name = r.path.partition("?")[0].rpartition("/")[2]
    r.send(Reply(302, Location=here(r, Shared.ports["other"], f"/pass:{r.arg or 60}/{r.n}-{name}?sign=secret")))


@fault("portal-cookie")
def portal_cookie(r):
    """After 100 ms to /pass-cookie:N/COUNT-NAME at the same port, with a cookie for that alone."""
    time.sleep(0.1)
    name = f"{r.n}-{r.path.rpartition('/')[2]}"
    r.send(Reply(302, Location=f"/pass-cookie:{r.arg or 60}/{name}", Set_Cookie=f"pass={name}; Path=/; Secure"))


@fault("pass", "pass-cookie", whole=True)
def passes(r):
    """Good for as many requests as the argument says (60), then 403: where portal sends to; portal-cookie: with its
    cookie alone. The first reply of each stops half way until a second request for it comes, 5 s at most."""
    needs = r.path.startswith("/pass-cookie")
    if r.n > int(r.arg or 60) or (needs and r.headers["Cookie"] != f"pass={r.path.rpartition('/')[2]}"):
        return r.send(Reply(403, b"expired"))
    reply = r.honest()
    r.send(reply, body=False)
    half = len(reply.body) // 2
    r.write(reply.body[:half])
    if r.n == 1 and not r.path.partition("/pass")[2].partition("/")[2].startswith("1-"):
        with Shared.lock:
            Shared.lock.wait_for(lambda: len(Shared.requests[r.path]) > 1, timeout=5)
    return r.write(reply.body[half:])


logged_in = {}     # the path behind a door: (its last session, how many requests that has served)


@fault("door", whole=True)
def door(r):
    """To /signin at `other`: a login takes 300 ms, and is good for as many requests as the argument says (60). The
    first reply to each stops half way until a second request has come in by it; "alone" in the log: none did within
    3 s."""
    with Shared.lock:
        session, served = logged_in.get(r.path, (0, 0))
        let_in = session and r.headers["Cookie"] == f"in={session}" and served < int(r.arg or 60)
        logged_in[r.path] = session, served + bool(let_in)
        Shared.lock.notify_all()
    if not let_in:
        return r.send(Reply(302, Location=here(r, Shared.ports["other"], f"/signin{r.path}")))
    reply = r.honest()
    r.send(reply, body=False)
    half = len(reply.body) // 2
    r.write(reply.body[:half])
    if served == 0 and session > 1:     # an opening has no other
        with Shared.lock:
            r.note["alone"] = not Shared.lock.wait_for(lambda: logged_in[r.path] != (session, 1), timeout=3)
    return r.write(reply.body[half:])


@fault("signin", whole=True)
def signin(r):
    """Where door sends to: whoever has a password comes back by /enter."""
    if not r.headers["Authorization"]:
        return r.send(Reply(401, WWW_Authenticate='Basic realm="Log in"'))
    time.sleep(0.3)
    return r.send(Reply(302, Location=here(r, Shared.ports["port"], f"/enter{r.path[len('/signin'):]}")))


@fault("enter", whole=True)
def enter(r):
    """Where signin sends back to: a session for what is behind the door."""
    path = r.path[len("/enter"):]
    with Shared.lock:
        session = logged_in.get(path, (0, 0))[0] + 1
        logged_in[path] = session, 0
    r.send(Reply(302, Location=path, Set_Cookie=f"in={session}; Path=/; Secure"))


@fault("redirect-loop")
def redirect_loop(r):
    """301 to itself."""
    r.send(Reply(301, Location=r.path))


@fault("redirect-to")
def redirect_to(r):
    """To what no reader may follow: a URL of the argument's scheme."""
    r.send(Reply(302, Location={"file": "file:///etc/passwd",
                                "data": "data:,x"}.get(r.arg, f"{r.arg}://127.0.0.1:1/x")))


@fault("redirect-near")
def redirect_near(r):
    """To the link-local address where a metadata service may be, by the argument's scheme (http)."""
    r.send(Reply(302, Location=f"{r.arg or 'http'}://169.254.169.254/latest/meta-data/x.h5"))


@fault("redirect-far")
def redirect_far(r):
    """To a URL of 20,000 bytes."""
    r.send(Reply(302, Location="/ok/" + "x" * 20000))


@fault("redirect-http")
def redirect_http(r):
    """To the plain port: a downgrade."""
    r.send(Reply(302, Location=here(r, Shared.ports["http"], "/ok/downgraded")))


@fault("redirect-nowhere")
def redirect_nowhere(r):
    """302 without Location."""
    r.send(Reply(302))


@fault("redirect-signed")
def redirect_signed(r):
    """To a URL at the same port that carries its own authorisation, as S3's do."""
    r.send(Reply(302, Location=here(r, r.server.server_port,
                                    "/signed/redirected?X-Amz-Credential=me&X-Amz-Signature=secret",
                                    r.headers["Host"].rpartition(":")[0])))


@fault("signed")
def signed(r):
    """400 to an Authorization beside a signature in the query, as S3; 403 without either."""
    if "nature=" in r.path and r.headers["Authorization"]:
        r.send(Reply(400, b"Only one auth mechanism allowed"))
    elif "nature=" in r.path or r.headers["Authorization"]:
        honest_reply(r)
    else:
        r.send(Reply(403, b"who?"))


@fault("xrootd-redirector", whole=True)
def xrootd_redirector(r):
    """Answers PROPFIND itself; the bytes are at `other`, which refuses PROPFIND and sends no validator; with :back
    or :ill its fault is xrootd-back or xrootd-ill."""
    if r.command == "PROPFIND":
        r.send(r.dated())
    else:
        target = f"xrootd-{r.arg}" if r.arg else "no-validator"
        r.send(Reply(302, Location=here(r, Shared.ports["other"], f"/{target}/redirected")))


@fault("xrootd-back", "xrootd-ill", whole=True)
def xrootd_target(r):
    """No validators; PROPFIND is redirected to the redirector that sent here, or is answered by 500."""
    if r.command != "PROPFIND":
        honest_reply(r)
    elif "-ill" in r.path:
        r.send(Reply(500))
    else:
        r.send(Reply(302, Location=here(r, Shared.ports["port"], "/xrootd-redirector:back/x.h5")))


@fault("redirect-whole")
def redirect_whole(r):
    """To `other`, which sends no parts of files."""
    r.send(Reply(302, Location=here(r, Shared.ports["other"], "/no-range/redirected")))
