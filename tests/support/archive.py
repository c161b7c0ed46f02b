"""An archive behind a login by redirect, as NASA's are, on this machine: stock nginx with auth_request for the data,
OAuth (oauthlib, at both ends) for the login, nginx's secure_link for signed URLs at a third host. They have real
archives' names: a proxy leads there, and nowhere else.
"""
import base64
import hashlib
import http.server
import json
import pathlib
import re
import secrets
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import oauthlib.oauth2
import connect_proxy
import harness

sys.path.insert(0, str(harness.TOP / "server"))
import throwaway_ca  # noqa: E402

DATA, LOGIN, STORE, OTHER = ("data.example.earthdatacloud.nasa.gov", "urs.earthdata.nasa.gov",
                             "bucket.s3.us-west-2.amazonaws.com", "elsewhere.example.org")
SIBLING = "other.example.earthdatacloud.nasa.gov"     # OTHER's, in the domain of the archive's cookie
USER, PASSWORD, TOKEN = "alice", "Alices-Secret-Word-4711", "EDL-TokenOfAlice-0815-0815"
SIGNING = "key-of-the-store"
LOG = ("'$request_method $request_uri $status range=\"$http_range\" auth=\"$http_authorization\" "
       "cookie=\"$http_cookie\"'")
NGINX = """
daemon off; pid @RUN@/nginx.pid; error_log @RUN@/error.log notice; worker_processes 1;
events { worker_connections 4096; }
http {
    client_body_temp_path @RUN@/tmp; proxy_temp_path @RUN@/tmp; fastcgi_temp_path @RUN@/tmp;
    uwsgi_temp_path @RUN@/tmp; scgi_temp_path @RUN@/tmp;
    ssl_certificate @RUN@/server.pem; ssl_certificate_key @RUN@/server.key;
    keepalive_requests 100000; etag on; gzip off;
    log_format asked @LOG@;
    upstream app { server 127.0.0.1:@APP@; keepalive 16; }
    proxy_http_version 1.1;
    proxy_set_header Connection ""; proxy_set_header Host $host; proxy_set_header X-Uri $request_uri;

    server {
        listen 127.0.0.1:@DATA@ ssl; access_log @RUN@/data.log asked;
        # What a session opens: sent on to the store, or served here.
        location /signed/ { auth_request /_session; error_page 401 = @login; proxy_pass http://app; }
        location /own/ { auth_request /_session; error_page 401 = @login; alias @ROOT@/; }
        location = /_session { internal; proxy_pass http://app; proxy_pass_request_body off;
                               proxy_set_header Content-Length ""; proxy_set_header X-Uri /_session; }
        location @login { proxy_pass http://app; proxy_set_header X-Uri "/_login";
                          proxy_set_header X-Wanted $request_uri; }
        location / { proxy_pass http://app; }
    }
    server { listen 127.0.0.1:@LOGIN@ ssl; access_log @RUN@/login.log asked; location / { proxy_pass http://app; } }
    server {
        listen 127.0.0.1:@STORE@ ssl; access_log @RUN@/store.log asked;
        root @ROOT@;
        add_header Set-Cookie "store=1; Path=/" always;
        location / {
            if ($http_authorization) { return 400; }    # as S3
            secure_link $arg_sig,$arg_expires;
            secure_link_md5 "$secure_link_expires$uri @SIGNING@";
            if ($secure_link != "1") { return 403; }
        }
    }
    server {    # a stranger's, that asks for all that one has
        listen 127.0.0.1:@OTHER@ ssl; access_log @RUN@/other.log asked;
        location /to/ { proxy_pass http://app; }
        location / { add_header WWW-Authenticate 'Basic realm="give"' always;
                     add_header Set-Cookie "theirs=1" always; return 401; }
    }
}
"""


class Users(oauthlib.oauth2.RequestValidator):
    """What the login host knows."""

    def __init__(self):
        self.codes, self.tokens = {}, {}

    def validate_client_id(self, client_id, request, *args, **kwargs):
        return client_id == "archive"

    def validate_redirect_uri(self, client_id, redirect_uri, request, *args, **kwargs):
        return redirect_uri == f"https://{DATA}/login"

    def validate_response_type(self, client_id, response_type, client, request, *args, **kwargs):
        return response_type == "code"

    def validate_scopes(self, client_id, scopes, client, request, *args, **kwargs):
        return True

    def get_default_scopes(self, client_id, request, *args, **kwargs):
        return ["read"]

    def save_authorization_code(self, client_id, code, request, *args, **kwargs):
        self.codes[code["code"]] = request.user

    def client_authentication_required(self, request, *args, **kwargs):
        return True

    def authenticate_client(self, request, *args, **kwargs):
        request.client = type("Client", (), {"client_id": request.client_id})()
        return (request.client_id, request.client_secret) == ("archive", "of-the-archive")

    def validate_code(self, client_id, code, client, request, *args, **kwargs):
        request.user, request.scopes = self.codes.get(code), ["read"]
        return request.user is not None

    def confirm_redirect_uri(self, client_id, code, redirect_uri, client, request, *args, **kwargs):
        return self.validate_redirect_uri(client_id, redirect_uri, request)

    def validate_grant_type(self, client_id, grant_type, client, request, *args, **kwargs):
        return grant_type == "authorization_code"

    def save_bearer_token(self, token, request, *args, **kwargs):
        self.tokens[token["access_token"]] = request.user

    def invalidate_authorization_code(self, client_id, code, request, *args, **kwargs):
        del self.codes[code]    # good once

    def is_pkce_required(self, client_id, request):
        return False

    def get_code_challenge(self, code, request):
        return None


class App(http.server.ThreadingHTTPServer):
    """The archive's and the login host's programs. |lock| guards what tests set and read."""
    daemon_threads, request_queue_size = True, 128

    def __init__(self, archive):
        super().__init__(("127.0.0.1", 0), Handler)
        self.archive, self.lock, self.users = archive, threading.Lock(), Users()
        self.provider = oauthlib.oauth2.WebApplicationServer(self.users)
        self.sessions, self.ever = set(), {}     # ever: {a secret: the logs that it may be in}
        self.sent_to_login = self.logins = self.shown = 0
        self.forget = None      # after so many more looks at a session there is none
        self.waits_for = 0      # a login is answered when so many were sent to log in since it began
        self.signed_s = 600
        self.unapproved = self.wrong = "401"
        self.approved, self.keeps = True, True

    def handle_error(self, request, client_address):
        pass    # readers hang up when they have enough


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name.replace("_", "-"), one)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def to(self, where, **headers):
        self.say(302, Location=where, **headers)

    def cookie(self, name):
        found = re.search(rf"(?:^|; ){name}=([^;]*)", self.headers.get("Cookie", ""))
        return found[1] if found else None

    def do_GET(self):
        uri = self.headers["X-Uri"]
        path = urllib.parse.urlsplit(uri).path
        for begin, does in (("/_session", self.session), ("/_login", self.send_to_login), ("/login", self.callback),
                            ("/signed/", self.sign), ("/oauth/authorize", self.authorize), ("/to/", self.elsewhere)):
            if path.startswith(begin):
                return does(uri)
        return self.say(404)

    # ---- the archive

    def session(self, uri):
        a = self.server
        with a.lock:
            if a.forget is not None:
                a.forget -= 1
                if a.forget < 0:
                    a.sessions.clear()
                    a.forget = None
            good = self.cookie("session") in a.sessions or self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self.say(200 if good else 401)

    def send_to_login(self, uri):
        a, state = self.server, secrets.token_urlsafe(30)
        client = oauthlib.oauth2.WebApplicationClient("archive")
        where = client.prepare_request_uri(f"https://{LOGIN}/oauth/authorize", redirect_uri=f"https://{DATA}/login",
                                           state=f"{state} {self.headers['X-Wanted']}")
        with a.lock:
            a.sent_to_login += 1
            a.ever[state] = {"data", "login"}
        # One name for all: who comes back must have the cookie of his own way.
        self.to(where, Set_Cookie=f"state={state}; Path=/; Secure; HttpOnly; Max-Age=600")

    def callback(self, uri):
        a, full = self.server, f"https://{DATA}{uri}"
        state = urllib.parse.parse_qs(urllib.parse.urlsplit(uri).query).get("state", [""])[0]
        client = oauthlib.oauth2.WebApplicationClient("archive")
        try:
            if not self.cookie("state") or state.partition(" ")[0] != self.cookie("state"):
                raise oauthlib.oauth2.OAuth2Error("not the state that was sent")
            code = client.parse_request_uri_response(full, state=state)["code"]
            body = client.prepare_request_body(code=code, redirect_uri=f"https://{DATA}/login", client_id="archive",
                                               client_secret="of-the-archive")
            client.parse_request_body_response(a.archive.ask_token(body))
        except oauthlib.oauth2.OAuth2Error as e:
            self.say(403, f"<html><title>No</title>{e.error}</html>", Content_Type="text/html")
            return
        value = secrets.token_urlsafe(30)
        with a.lock:
            a.ever[value] = {"data"}
            if a.keeps:
                a.sessions.add(value)
        self.to(f"https://{DATA}{state.partition(' ')[2]}",
                Set_Cookie=[f"session={value}; Domain={DATA.partition('.')[2]}; Path=/; Secure; HttpOnly",
                            "state=; Path=/; Max-Age=0"])

    def sign(self, uri):
        path, ends = uri.removeprefix("/signed"), int(time.time() + self.server.signed_s)
        mac = hashlib.md5(f"{ends}{path} {SIGNING}".encode()).digest()
        sig = base64.urlsafe_b64encode(mac).rstrip(b"=").decode()
        with self.server.lock:
            self.server.ever[sig] = {"store"}
        self.to(f"https://{STORE}{path}?expires={ends}&sig={sig}")

    def elsewhere(self, uri):
        """/to/HOST/PATH: redirected there. What hostile servers do."""
        host, _, path = uri.removeprefix("/to/").partition("/")
        self.to(f"https://{host}/{path}", Set_Cookie="bait=1; Domain=nasa.gov")

    # ---- the login host

    def authorize(self, uri):
        a, shown = self.server, self.headers.get("Authorization", "")
        name = base64.b64decode(shown.removeprefix("Basic ")).decode() if shown.startswith("Basic ") else ""
        with a.lock:
            a.shown += bool(shown)
            before, waits_for = a.sent_to_login, a.waits_for
        if name != f"{USER}:{PASSWORD}":
            if a.wrong == "page":
                self.say(200, "<html><title>Log in</title><form/></html>", Content_Type="text/html")
            else:
                self.say(401, json.dumps({"error": "invalid", "error_description": "Invalid user credentials"}),
                         WWW_Authenticate='Basic realm="Log in"', Content_Type="application/json")
            return
        if not a.approved:
            if a.unapproved == "page":
                self.say(200, "<html><title>Log in</title>Approve the application: <form/></html>",
                         Content_Type="text/html")
            elif a.unapproved == "error":
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(uri).query)
                self.to(query["redirect_uri"][0] + "?" + urllib.parse.urlencode(
                    {"error": "access_denied", "state": query["state"][0]}))
            else:
                self.say(401, json.dumps({"error_description": "To access this resource, approve the app",
                                          "resolution_url": f"https://{LOGIN}/approve_app?client_id=archive"}),
                         Content_Type="application/json")
            return
        end = time.monotonic() + 5
        while waits_for and time.monotonic() < end:
            with a.lock:
                if a.sent_to_login - before >= waits_for:
                    break
            time.sleep(0.002)
        with a.lock:
            a.logins += 1
            try:
                headers, body, status = a.provider.create_authorization_response(
                    f"https://{LOGIN}{uri}", "GET", None, {}, ["read"], {"user": USER})
            except oauthlib.oauth2.OAuth2Error as e:    # not by a redirect: it may be anybody's
                headers, body, status = {}, e.json, e.status_code
        self.say(status, body or "", **{k.replace("-", "_"): v for k, v in headers.items()})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.server.lock:
            headers, said, status = self.server.provider.create_token_response(
                f"https://{LOGIN}/oauth/token", "POST", body, {"Content-Type": "application/x-www-form-urlencoded"})
        self.say(status, said, **{k.replace("-", "_"): v for k, v in headers.items()})


class Archive:
    """All of it, for the files below |root|."""

    def __init__(self, root, directory):
        self.root, self.run = pathlib.Path(root), pathlib.Path(directory)
        self.ports = {name: harness.free_port() for name in ("DATA", "LOGIN", "STORE", "OTHER")}
        (self.run / "tmp").mkdir(parents=True)
        throwaway_ca.make_ca(self.run)
        names = ",".join(f"DNS:{name}" for name in (DATA, LOGIN, STORE, OTHER, SIBLING))
        throwaway_ca.sign(self.run, self.run, "server", "/CN=archive", 8, f"subjectAltName={names}",
                          "basicConstraints=critical,CA:FALSE", "extendedKeyUsage=serverAuth")
        self.cacert = self.run / "ca.pem"

    def __enter__(self):
        self.app = App(self)
        threading.Thread(target=self.app.serve_forever, daemon=True).start()
        words = {"RUN": self.run, "ROOT": self.root, "APP": self.app.server_port, "LOG": LOG, "SIGNING": SIGNING,
                 **self.ports}
        conf = re.sub(r"@([A-Z]+)@", lambda m: str(words[m[1]]), NGINX)
        (self.run / "nginx.conf").write_text(conf)
        self.nginx = subprocess.Popen(["nginx", "-c", str(self.run / "nginx.conf"), "-p", str(self.run)],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for port in self.ports.values():
            harness.wait_port(port)
        self.proxy = connect_proxy.Proxy(to={f"{host}:443": self.ports[name] for name, host in (
            ("DATA", DATA), ("LOGIN", LOGIN), ("STORE", STORE), ("OTHER", OTHER))}
            | {f"{LOGIN}:8443": self.ports["OTHER"], f"{SIBLING}:443": self.ports["OTHER"]})
        return self

    def __exit__(self, *exc):
        self.nginx.terminate()
        self.nginx.wait(20)
        self.proxy.socket.close()
        self.app.shutdown()
        self.app.server_close()

    def ask_token(self, body):
        """What the archive asks of the login host, by TLS as it would."""
        context = ssl.create_default_context(cafile=str(self.cacert))
        context.check_hostname = False      # it has its own name, and this is its port here
        request = urllib.request.Request(f"https://127.0.0.1:{self.ports['LOGIN']}/oauth/token", body.encode(),
                                         {"Content-Type": "application/x-www-form-urlencoded"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                             urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=20) as reply:
            return reply.read().decode()

    def env(self):
        """For a reader of it."""
        return {"XHDF5_CA_BUNDLE": str(self.cacert), "https_proxy": f"http://127.0.0.1:{self.proxy.port}"}

    def expire(self):
        with self.app.lock:
            self.app.sessions.clear()

    def log(self, name):
        return (self.run / f"{name}.log").read_text() if (self.run / f"{name}.log").exists() else ""

    def secrets(self):
        """{a secret: the hosts that may have been told it}."""
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        with self.app.lock:
            return {basic: {"login"}, PASSWORD: set(), TOKEN: {"data"}, **self.app.ever}
