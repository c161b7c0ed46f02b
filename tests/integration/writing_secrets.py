#!/usr/bin/env python3
"""No token and no password is in anything that writing, recovering and the tool leave: prints TAP.

A server that takes writes, behind a gate that answers some requests with what it was sent as Authorization (as careless servers
do). All logs are on, and everything is searched: output, time lines, shadows, what is kept of failed commits, and what lies at
the server while a commit is under way and afterwards. access.py and faults.py do so for reading.
"""
import base64
import contextlib
import os
import pathlib
import signal
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import harness  # noqa: E402
import writing  # noqa: E402

TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ0aGUtdG9rZW4tdGhhdC1ub2JvZHktbWF5LXNlZSJ9.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
USER, PASSWORD, QUERY = "somebody", "pass-that-nobody-may-see", "query-that-nobody-may-see"
BASIC = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
# A piece of the token is as bad as most of it.
SECRETS = [TOKEN[i:i + 16] for i in range(len(TOKEN) - 15)] + [PASSWORD, BASIC[:16], BASIC[-16:], QUERY]
CHANGE = "f = h5py.File(url, 'r+'); f['a'][:] = {}; f.close()"


class Place(writing.Place):
    """With all logs, a token, and a memory of what was printed."""

    def __init__(self, stack):
        super().__init__("nginx", stack)
        self.printed, self.found = [], []
        self.netrc = self.work / "netrc"
        self.netrc.write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
        self.netrc.chmod(0o600)

    def env(self, who="token", **options):
        env = super().env(**{"log": "all", "stats": "on", "trace": self.work / "line-%p.json"} | options)
        return env | {"token": {"BEARER_TOKEN": TOKEN}, "netrc": {"NETRC": str(self.netrc), "XHDF5_NETRC": "on"},
                      "url": {}}[who]

    def run(self, *args, **options):
        got = super().run(*args, **options)
        self.printed += got[1:]
        return got

    def say(self, *words, **options):
        """Runs the tool, however it ends."""
        status, out, err = harness.run([writing.TOOL, *words], self.env(**options))
        self.printed += [out, err]
        return status, out + err

    def search(self, where, files):
        """Notes the secrets in |files| and in their names."""
        for file in files:
            with contextlib.suppress(OSError):
                text = str(file).encode() + (file.read_bytes() if file.is_file() else b"")
                self.found += [f"{secret} in {where}, {file.name}" for secret in SECRETS if secret.encode() in text]

    def search_server(self):
        self.search("the server", self.root.rglob("*"))


def main():
    tap = harness.Tap()
    with contextlib.ExitStack() as stack:
        p = Place(stack)
        url = p.gate.url + "/f.h5"
        secret_url = p.gate.url.replace("https://", f"https://{USER}:{PASSWORD}@") + "/f.h5"
        local = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xh-secrets-"))) / "out.h5"

        def looks(n, method, path):
            if method == "MOVE":    # a lock and the new file are there
                p.search_server()
        p.gate.arm(looks)
        with tap.claim("files are made and changed with a token, and with a password"):
            assert p.run("f = h5py.File(url, 'w'); f['a'] = np.zeros(1000); f.close()", url)[0] == 0
            assert p.run(CHANGE.format(1), url)[0] == 0
            assert p.run(CHANGE.format(2), url, who="netrc")[0] == 0
            assert p.run(CHANGE.format(3), secret_url, who="url")[0] == 0
        with tap.claim("a server that says what it was sent: errors, and what is kept"):
            for n, (method, status, who) in enumerate((("MKCOL", 403, "token"), ("PUT", 400, "token"),
                                                       ("PUT", 507, "netrc"),
                                                       ("MOVE", 500, "url"), ("PUT", 401, "url"))):
                p.gate.arm(lambda _, m, path, method=method,
                           status=status: ("echo", status) if m == method else looks(0, m, path))
                got, out, err = p.run(CHANGE.format(10 + n), secret_url if who == "url" else url, who=who, retries=0)
                assert got == 1 and str(status) in err, (got, err[-2000:])
            assert all(p.gate.authorized[m] for m in ("HEAD", "GET", "PUT", "MOVE", "MKCOL",
                                                      "DELETE")), p.gate.authorized
        with tap.claim("a process that is killed while it sends"):
            state = {}

            def kill(n, method, path):
                if method == "PUT" and "/data-" in path:
                    p.search_server()
                    os.kill(state["pid"], signal.SIGKILL)
                    return "half"
                return None
            p.gate.arm(kill)
            one = p.popen("sys.stdin.readline()\n" + CHANGE.format(20), secret_url, who="url")
            state["pid"] = one.pid
            p.printed += one.communicate("\n", timeout=60)
            assert one.returncode == -signal.SIGKILL, one.returncode
        p.gate.arm(looks)
        p.search("what is kept", p.overlay.rglob("*"))
        with tap.claim("what is kept is listed, written to a file, sent and dropped"):
            kept = p.left()
            assert len(kept) == 6, kept
            for words in (["list"], ["list", "--json"], ["export", kept[0]["id"], local], ["retry", kept[1]["id"]]):
                status, said = p.say("recover", *words)
                assert said and status in (0, 1, 3), (words, status, said)
            p.gate.arm(lambda n, m, path: ("echo", 403) if m == "PUT" else None)
            status, said = p.say("recover", "retry", kept[2]["id"])
            assert status == 3, said
            p.gate.arm(looks)
            p.say("recover", "drop", *(one["id"] for one in kept))
        with tap.claim("the tool, and files beside the one that is read"):
            for who, name in (("token", url), ("url", secret_url)):
                for words in (["doctor", "--quick", name + "?q=" + QUERY], ["doctor", "--quick", name],
                              ["stat", name + "?q=" + QUERY],
                              ["get", name, "-o", f"{local}-{who}"], ["cache", "ls"],
                              ["stat", p.gate.url + "/none.h5?" + QUERY]):
                    status, said = p.say(*words, who=who, sidecar="auto", writable="off")
                    assert said, words
            p.local("f = h5py.File(url, 'w'); f['a'] = np.zeros(2000000); f.close()", p.root / "large.h5")
            harness.age(p.root / "large.h5")    # what was changed just now leaves nothing in the shadow
            for who, name in (("token", url), ("url", secret_url)):
                for sidecar in "auto", "require":
                    p.run("h5py.File(url)['a'][5]", name.replace("/f.h5", "/large.h5"), who=who, sidecar=sidecar,
                          writable="off")
            beside = {path for _, path, _ in p.gate.log if path.startswith("/large.h5.")}
            assert beside and "there is no" in p.printed[-1], (beside, p.printed[-1][-2000:])
        p.search("the shadow", p.shadow.rglob("*"))
        p.search("a time line", p.work.glob("line-*.json"))
        p.search("a file made from the server's", [local])
        p.search_server()
        everything = "".join(p.printed)
        with tap.claim("there is something to search"):
            for words in (" origin dav ", " origin send ", "recover retry", "to be sent", " vfd edit "):
                assert words in everything, words
            assert len(list(p.work.glob("line-*.json"))) > 5 and any(p.shadow.rglob("s-*"))
        with tap.claim("no token, password or query is in any of it"):
            assert not p.found, "\n".join(p.found[:8])
            shown = [line for line in everything.splitlines() if any(secret in line for secret in SECRETS)]
            assert not shown, f"{len(shown)} lines, such as:\n" + "\n".join(dict.fromkeys(shown[:8]))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
