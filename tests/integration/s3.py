#!/usr/bin/env python3
"""S3: a real server that verifies signatures (versitygw, which containers/extras brings), and one that lies. TAP.

Usage: s3.py versitygw|liar|near

What comes out of the reader, what it keeps and what the server notes is searched for secrets in the end.
"""
import contextlib
import errno
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "support")]
import connect_proxy  # noqa: E402
import faults  # noqa: E402
import harness  # noqa: E402
import mount  # noqa: E402
import s3_sign  # noqa: E402

sys.path.insert(0, str(harness.TOP / "server"))
import throwaway_ca  # noqa: E402

H5PY = harness.H5PY["3.16.0"]
TOOL = harness.BUILD / "vfd/tool/xhdf5"
ID, SECRET = "AKIDOFTHETESTS", "secret/of+the+tests/that+nobody+may+see"
SESSION = "session-token/that+nobody+may+see=="
KEYS = {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET}
SECRETS = (SECRET, SESSION, "secret-of-metadata", "token-of-the", s3_sign.quote(SECRET, ""),
           s3_sign.quote(SESSION, ""), "X-Amz-Signature=")
SAMPLE = """
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], "w") as f:
    f["rows"] = np.arange(24 * 65536).reshape(24, 65536)
    f["a"] = np.arange(400000)
"""
# Opens one after another, and prints of each what it read, or what was said.
READ = """
import json, os, sys, h5py
for url in sys.argv[1:]:
    try:
        with h5py.File(url) as f:
            said = [int(f["a"][...].sum()), f["rows"][:, 7].tolist()]
    except Exception as e:
        said = [type(e).__name__, str(e)]
    print(json.dumps(said), flush=True)
"""


def held(path):
    """The pieces of a file between its holes, of which a shadow has many."""
    at = 0
    with open(path, "rb") as f:
        while True:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError as e:
                if e.errno == errno.ENXIO:      # there is nothing from there on
                    return
                raise
            end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            yield os.pread(f.fileno(), end - at, at)
            at = end


class Reader:
    """|home|: the reader's, with its ~/.aws. All that it says and keeps is remembered."""

    def __init__(self, directory, cacert):
        self.home = directory / "home"
        (self.home / ".aws").mkdir(parents=True)
        self.file = directory / "x.h5"
        harness.run([H5PY, "-c", SAMPLE, self.file], harness.clean_env())
        harness.age(self.file)
        self.right = [399999 * 200000, [i * 65536 + 7 for i in range(24)]]
        self.shadow = directory / "shadow"
        self.shadow.mkdir(mode=0o700)
        self.trace = directory / "trace"
        self.cacert, self.said = cacert, []

    def env(self, shadow=None, **more):
        env = {k: v for k, v in harness.driver_env(None, shadow or self.shadow, log="all", retries=3).items()
               if not k.startswith("AWS_") and "proxy" not in k.lower()}
        return env | {"XHDF5_CA_BUNDLE": self.cacert, "HOME": str(self.home), "XHDF5_TRACE": str(self.trace)} | more

    def read(self, *urls, fresh=True, **env):
        """What was read of each, or [exception, text]; with a shadow of its own, or the test's."""
        with contextlib.ExitStack() as stack:
            shadow = stack.enter_context(harness.shadow_dir()) if fresh else self.shadow
            status, out, err = harness.run([H5PY, "-c", READ, *urls], self.env(shadow, **env))
            self.said += [out.encode(), err.encode()]
            self.said += [piece for p in pathlib.Path(shadow).rglob("*") if p.is_file() for piece in held(p)]
            self.log = err
            assert status == 0, out + err[-3000:]
            return [json.loads(line) for line in out.splitlines()]

    def reads(self, *urls, **env):
        for said in self.read(*urls, **env):
            assert said == self.right, f"{said}\n{self.log[-3000:]}"

    def refused(self, url, kind, *words, **env):
        said = self.read(url, **env)[0]
        assert said[0] == kind and all(w in said[1] for w in words), f"{said}, not {kind} {words}\n{self.log[-2000:]}"

    def run(self, *words, **env):
        status, out, err = harness.run(words, self.env(**env))
        self.said += [out.encode(), err.encode()]
        return status, out, err

    def aws(self, name, text):
        path = self.home / ".aws" / name
        path.write_text(text)
        return path

    def no_aws(self):
        shutil.rmtree(self.home / ".aws")
        (self.home / ".aws").mkdir()

    def kept_secrets(self, tap, *more):
        texts = [*self.said, *(p.read_bytes() for p in (self.trace, *more) if p.exists())]
        for secret in SECRETS:
            shown = any(secret.encode() in text for text in texts)
            tap.ok(not shown, f"nothing printed, kept or traced has {secret[:12]}…")


# ---- a real one

class Gateway:
    """versitygw over a directory, with TLS. Buckets: bkt, open (anybody reads), other. They have hosts of their own,
    too: below DOMAIN, which libcurl takes for this machine without asking anybody (RFC 6761)."""
    DOMAIN = "s3.localhost"

    def __init__(self, directory):
        self.dir = directory
        for name in ("ca", "root", "meta", "iam"):
            (directory / name).mkdir()
        throwaway_ca.make_ca(directory / "ca")
        throwaway_ca.make_server(directory / "ca", directory / "ca", others=[self.DOMAIN, f"*.{self.DOMAIN}"])
        self.cacert = str(directory / "ca/ca.pem")
        self.port = harness.free_port()
        self.base = f"https://127.0.0.1:{self.port}"
        self.domain = f"https://{self.DOMAIN}:{self.port}"
        self.log = directory / "access.log"

    def __enter__(self):
        words = ["versitygw", "--port", f"127.0.0.1:{self.port}", "--cert", self.dir / "ca/server.pem", "--key",
                 self.dir / "ca/server.key", "--access-log", self.log, "--iam-dir", self.dir / "iam", "--quiet",
                 "--virtual-domain", self.DOMAIN,
                 *(["--keep-alive"] if "--keep-alive" in subprocess.run(["versitygw", "--help"], capture_output=True,
                                                                        text=True).stdout else []),
                 "posix", "--sidecar", self.dir / "meta", self.dir / "root"]
        env = harness.clean_env() | {"ROOT_ACCESS_KEY": ID, "ROOT_SECRET_KEY": SECRET}
        self.out = open(self.dir / "out", "w")
        self.process = subprocess.Popen([str(w) for w in words], env=env, stdout=self.out, stderr=subprocess.STDOUT)
        harness.wait_port(self.port)
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.out.close()

    def ask(self, method, path, body=b"", query=None):
        status, said = s3_sign.ask(method, self.base + path, ID, SECRET, self.cacert, body, query)
        assert status in (200, 204), f"{method} {path}: {status} {said}"

    def fill(self, data):
        for bucket in ("bkt", "open", "other"):
            self.ask("PUT", f"/{bucket}")
            self.ask("PUT", f"/{bucket}/d/{s3_sign.quote('x +1.h5')}", data)
        policy = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"],
                                 "Resource": "arn:aws:s3:::open/*"}]}
        self.ask("PUT", "/open", json.dumps(policy).encode(), {"policy": ""})

    def lines(self):
        return self.log.read_text().splitlines()

    def asked(self, since=0):
        """(status, error code or "-", bytes) of each request of the driver, from line |since| on."""
        found = [re.search(r" s3_GetObject \S+(?: \S+)*? (\d{3}) (\S+) (\d+) ", line) for line in self.lines()[since:]
                 if "xhdf5/" in line]
        return [(int(m[1]), m[2], int(m[3])) for m in found if m]


NAME = "d/x +1.h5"


def real_keys(tap, g, r):
    endpoint = {"AWS_ENDPOINT_URL_S3": g.base}
    url, https = f"s3://bkt/{NAME}", f"{g.base}/bkt/{s3_sign.quote(NAME)}"
    with tap.claim("s3://bucket/key is read with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, at AWS_ENDPOINT_URL_S3"):
        r.reads(url, url, **endpoint, **KEYS)
        assert not re.search(r" send .* ranges=([2-9]|\d\d)", r.log)
    with tap.claim("so is the https URL of that endpoint, however its path is escaped"):
        r.reads(https, https.replace("%2B", "+"), **endpoint, **KEYS)
    with tap.claim("another https URL is none of S3: no key is sent, and the option s3=on says that it is"):
        r.refused(https, "PermissionError", **KEYS)
        r.reads(https, XHDF5_S3="on", **KEYS)
    with tap.claim("with s3=off nothing is signed"):
        r.refused(url, "PermissionError", "without a key", XHDF5_S3="off", **endpoint, **KEYS)
    with tap.claim("the options of the same names do the same, in HDF5_DRIVER_CONFIG too"):
        r.reads(url, HDF5_DRIVER_CONFIG=f"aws_access_key_id={ID},aws_secret_access_key={SECRET},"
                                        f"aws_endpoint_url_s3={g.base}")
        r.reads(url, XHDF5_AWS_ENDPOINT_URL_S3=g.base, XHDF5_AWS_ACCESS_KEY_ID=ID, XHDF5_AWS_SECRET_ACCESS_KEY=SECRET)
    with tap.claim("a profile has keys, region and endpoint"):
        r.aws("credentials", f"[default]\naws_access_key_id=NO\naws_secret_access_key=no\n"
                             f"[mine]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n")
        r.aws("config", f"[profile mine]\nregion = us-east-1\nservices = s\n[services s]\ns3 =\n"
                        f"  endpoint_url = {g.base}\n")
        r.reads(url, AWS_PROFILE="mine")
        r.reads(url, XHDF5_AWS_PROFILE="mine", AWS_ACCESS_KEY_ID="NO", AWS_SECRET_ACCESS_KEY="no")
        r.no_aws()
    with tap.claim("a credential_process prints them; what it says on standard error is seen"):
        program = r.aws("my keys", "#!/bin/sh\necho it says so >&2\necho '%s'\n" % json.dumps(
            {"Version": 1, "AccessKeyId": ID, "SecretAccessKey": SECRET}))
        program.chmod(0o755)
        r.aws("config", f"[default]\ncredential_process = '{program}' --for us\n")
        r.reads(url, **endpoint)
        assert "it says so" in r.log
        r.no_aws()
    with tap.claim("xhdf5.open and xhdf5.enable take the name, and the options as keywords"):
        code = ("import os, sys, h5py, xhdf5\nurl, base, key, secret = sys.argv[1:]\n"
                "how = dict(aws_endpoint_url_s3=base, aws_access_key_id=key, aws_secret_access_key=secret)\n"
                "with xhdf5.open(url, **how) as f:\n    print(int(f['a'][...].sum()))\n"
                "os.environ.update({'XHDF5_' + k.upper(): v for k, v in how.items()})\n"
                "xhdf5.enable()\nwith h5py.File(url) as f:\n    print(int(f['a'][...].sum()))\n")
        env = {k: v for k, v in r.env().items() if not k.startswith("HDF5_")}
        env["PYTHONPATH"] = str(harness.BUILD / "python")
        status, out, err = harness.run([H5PY, "-c", code, url, g.base, ID, SECRET], env)
        r.said += [out.encode(), err.encode()]
        assert out.split() == [str(r.right[0])] * 2, out + err[-3000:]
    with tap.claim("xhdf5 get and doctor read it too"), tempfile.TemporaryDirectory() as d:
        status, out, err = r.run(TOOL, "get", url, "-o", f"{d}/got.h5", **endpoint, **KEYS)
        assert status == 0, out + err[-2000:]
        assert pathlib.Path(d, "got.h5").read_bytes() == r.file.read_bytes()
        status, out, err = r.run(TOOL, "doctor", "--quick", url, **endpoint, **KEYS)
        assert status == 0, out + err[-2000:]
        since = len(g.lines())
        status, out, err = r.run(TOOL, "doctor", "--writing", url, **endpoint, **KEYS, AWS_REGION="eu-west-9")
        assert "read, and not written" in out and "us-east-1" in out and "one range" in out, out + err[-2000:]
        assert all(" s3_GetObject " in line for line in g.lines()[since:]), g.lines()[since:]


def real_hosts(tap, g, r):
    endpoint = {"AWS_ENDPOINT_URL_S3": g.domain}
    url, https = f"s3://bkt/{NAME}", f"https://bkt.{g.DOMAIN}:{g.port}/{s3_sign.quote(NAME)}"

    with tap.claim("s3_addressing=virtual: the bucket stands in the host, and the signature is that host's"):
        since = len(g.lines())
        r.reads(url, XHDF5_S3_ADDRESSING="virtual", **endpoint, **KEYS)
        lines = g.lines()[since:]
        assert f"//bkt.{g.DOMAIN}" in r.log and all(f" /{s3_sign.quote(NAME)} 20" in line for line in lines), lines
    with tap.claim("so does a profile's addressing_style"):
        r.aws("config", "[default]\ns3 =\n  addressing_style = virtual\n")
        r.reads(url, **endpoint, **KEYS)
        assert f"//bkt.{g.DOMAIN}" in r.log
        r.no_aws()
    with tap.claim("the https URL of a bucket's host is signed where the endpoint is named so, and else not"):
        r.reads(https, XHDF5_S3_ADDRESSING="virtual", **endpoint, **KEYS)
        r.refused(https, "PermissionError", **endpoint, **KEYS)
        r.refused(https, "PermissionError", XHDF5_S3_ADDRESSING="virtual", AWS_ENDPOINT_URL_S3=g.base, **KEYS)
    with tap.claim("a wrong secret, no key, no such object and a public bucket are as in the path's style"):
        how = {"XHDF5_S3_ADDRESSING": "virtual"} | endpoint
        r.refused(url, "PermissionError", "SignatureDoesNotMatch", **how, AWS_ACCESS_KEY_ID=ID,
                  AWS_SECRET_ACCESS_KEY="wrong")
        r.refused(url, "PermissionError", "without a key", **how)
        r.refused("s3://bkt/none.h5", "FileNotFoundError", "NoSuchKey", **how, **KEYS)
        r.reads(f"s3://open/{NAME}", **how)
    with tap.claim("another bucket's host gets no key from a file that the user's bucket has; its own gets it"):
        code = ("import sys, h5py\nwith h5py.File(sys.argv[1], 'w') as f:\n"
                "    f['own'] = h5py.ExternalLink('s3://bkt/d/x +1.h5', '/a')\n"
                "    f['other'] = h5py.ExternalLink('s3://other/d/x +1.h5', '/a')\n")
        with tempfile.TemporaryDirectory() as d:
            harness.run([H5PY, "-c", code, f"{d}/links.h5"], harness.clean_env())
            g.ask("PUT", "/bkt/d/hosts.h5", pathlib.Path(d, "links.h5").read_bytes())
        read = "import sys, h5py\nprint(int(h5py.File(sys.argv[1])[sys.argv[2]][...].sum()))"
        status, out, err = r.run(H5PY, "-c", read, "s3://bkt/d/hosts.h5", "own", **how, **KEYS)
        assert out.strip() == str(r.right[0]), out + err[-3000:]
        status, out, err = r.run(H5PY, "-c", read, "s3://bkt/d/hosts.h5", "other", **how, **KEYS)
        assert status and "is sent there, as not the program but the file" in err, out + err[-3000:]


def real_refusals(tap, g, r):
    endpoint = {"AWS_ENDPOINT_URL_S3": g.base}
    url = f"s3://bkt/{NAME}"
    with tap.claim("without a key: what was looked for, and what to set"):
        r.refused(url, "PermissionError", "403 AccessDenied", "without a key", "AWS_PROFILE", "default", **endpoint)
    with tap.claim("with a wrong secret: SignatureDoesNotMatch, whose key it was, and no more than three requests"):
        since = len(g.lines())
        r.refused(url, "PermissionError", "SignatureDoesNotMatch", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
                  **endpoint, AWS_ACCESS_KEY_ID=ID, AWS_SECRET_ACCESS_KEY="wrong")
        assert len(g.lines()) - since <= 3, g.lines()[since:]
    with tap.claim("with a key that the server does not know: InvalidAccessKeyId"):
        r.refused(url, "PermissionError", "InvalidAccessKeyId", "does not know it", **endpoint,
                  AWS_ACCESS_KEY_ID="NOBODY", AWS_SECRET_ACCESS_KEY="x")
    with tap.claim("no such object, no such bucket"):
        r.refused("s3://bkt/none.h5", "FileNotFoundError", "NoSuchKey", **endpoint, **KEYS)
        r.refused("s3://nobody/none.h5", "FileNotFoundError", "NoSuchBucket", **endpoint, **KEYS)
    with tap.claim("a public bucket is read without keys, and with ones that the server does not take"):
        public = f"s3://open/{NAME}"
        r.reads(public, **endpoint)
        r.reads(public, **endpoint, AWS_NO_SIGN_REQUEST="true", **KEYS)
        r.reads(public, **endpoint, AWS_ACCESS_KEY_ID="NOBODY", AWS_SECRET_ACCESS_KEY="x")
        r.reads(public, **endpoint, AWS_ACCESS_KEY_ID=ID, AWS_SECRET_ACCESS_KEY="wrong")
    with tap.claim("a region that is not the server's is put right by what it says, once in a process"):
        since = len(g.lines())
        r.reads(url, url, **endpoint, **KEYS, AWS_REGION="eu-west-9")
        assert sum(status == 400 for status, *_ in g.asked(since)) == 1, g.lines()[since:]
    with tap.claim("writing is refused before anything is asked, with the option writable too"):
        since = len(g.lines())
        code = ("import sys, h5py\nfor m in ('w', 'a', 'r+', 'x'):\n    try:\n        h5py.File(sys.argv[1], m)\n"
                "    except OSError as e:\n        print(e)")
        for writable in ("on", "off"):
            out = r.run(H5PY, "-c", code, url, XHDF5_WRITABLE=writable, **endpoint, **KEYS)[1]
            assert out.count("objects of S3 are read, and not written") == 4, out
        out = r.run(H5PY, "-c", code, f"{g.base}/bkt/new.h5", XHDF5_WRITABLE="on", **endpoint, **KEYS)[1]
        assert out.count("objects of S3 are read, and not written") == 4, out
        assert len(g.lines()) == since
    with tap.claim("a name that is none is refused with what is wrong, before anything is asked"):
        for bad, word in (("s3://bkt", "names no object"), ("s3://me@bkt/x.h5", "no bucket"), ("s3:/bkt/x.h5", "s3://"),
                          ("s3://bkt/a?b.h5", "%3F"), ("s3://bkt/../x.h5", "presigned")):
            said = r.read(bad, **endpoint, **KEYS)[0]
            assert word in said[1], (bad, said)
        assert len(g.lines()) == since


def real_objects(tap, g, r):
    endpoint = {"AWS_ENDPOINT_URL_S3": g.base}
    url, https = f"s3://bkt/{NAME}", f"{g.base}/bkt/{s3_sign.quote(NAME)}"
    with tap.claim("two presigned URLs of an object, and its name, share what is kept; no keys are sent beside them"):
        def presigned(**how):
            return s3_sign.presigned(https, ID, SECRET, **how)
        one, two = presigned(), presigned(expires=599)
        assert one != two
        time.sleep(2.1)     # the object's date is to be older than a reply's
        r.reads(one, fresh=False)
        for again in (two, url, https):
            since = len(g.lines())
            r.reads(again, fresh=False, **endpoint, **KEYS)
            assert "confirmed=1" in r.log and not harness.counters(r.log)["bytes_network"], r.log[-3000:]
            assert len(g.lines()) - since == 1, g.lines()[since:]
    with tap.claim("a presigned URL that has expired is told so"):
        r.refused(presigned(expires=60, shift=-3600), "PermissionError", "expired")
    with tap.claim("an object that is replaced while it is open is not mixed with the new one; then that is opened"):
        code = ("import sys, time, h5py\nf = h5py.File(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.readline()\n"
                "try:\n    print(int(f['a'][...].sum()))\nexcept OSError as e:\n    print(e)\n"
                "f.close()\nprint(int(h5py.File(sys.argv[1])['a'][...].sum()))\n")
        newer = r.file.with_name("newer.h5")
        harness.run([H5PY, "-c", SAMPLE.replace("np.arange(400000)", "np.arange(400000) + 1"), newer],
                    harness.clean_env())
        g.ask("PUT", "/bkt/changes.h5", r.file.read_bytes())
        how = {"XHDF5_READAHEAD": "off", "XHDF5_WHOLE_FILE_BYTES": "4096"}
        with harness.shadow_dir() as shadow, subprocess.Popen(
                [str(H5PY), "-c", code, "s3://bkt/changes.h5"], env=r.env(shadow, **how, **endpoint, **KEYS),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            assert child.stdout.readline() == "open\n"
            g.ask("PUT", "/bkt/changes.h5", newer.read_bytes())
            out = child.communicate("go on\n", timeout=60)[0].splitlines()
        assert "changed on the server while it was open" in out[0] and out[1] == str(r.right[0] + 400000), out
    with tap.claim("the option endpoints takes s3:// names: a copy of the bucket serves what the first one lacks"):
        g.ask("PUT", "/other/only/y.h5", r.file.read_bytes())
        r.reads(f"s3://bkt/{NAME}", XHDF5_ENDPOINTS="s3://bkt s3://other", **endpoint, **KEYS)
        assert "sites=2" in r.log or "site-open" in r.log, r.log[-2000:]
    with tap.claim("sidecars are looked for, and their lack is no error and no news"):
        r.reads(url, XHDF5_SIDECAR="auto", **endpoint, **KEYS)
        r.reads(f"s3://open/{NAME}", XHDF5_SIDECAR="auto", **endpoint)
        assert "ignored" not in r.log
    with tap.claim("external links and virtual datasets beside the file, and by s3:// names, are read with the keys"):
        code = ("import sys, h5py\nd = sys.argv[1]\n"
                "with h5py.File(d + '/links.h5', 'w') as f:\n"
                "    f['beside'] = h5py.ExternalLink('x +1.h5', '/a')\n"
                "    f['named'] = h5py.ExternalLink('s3://bkt/d/x +1.h5', '/a')\n"
                "    l = h5py.VirtualLayout((400000,), 'i8')\n"
                "    l[:] = h5py.VirtualSource('x +1.h5', 'a', (400000,))\n"
                "    f.create_virtual_dataset('virtual', l)\n")
        with tempfile.TemporaryDirectory() as d:
            status, out, err = harness.run([H5PY, "-c", code, d], harness.clean_env())
            assert status == 0, err
            g.ask("PUT", "/bkt/d/links.h5", pathlib.Path(d, "links.h5").read_bytes())
        code = ("import sys, h5py\nwith h5py.File(sys.argv[1]) as f:\n"
                "    print(*(int(f[n][...].sum()) for n in sys.argv[2:]))")
        status, out, err = r.run(H5PY, "-c", code, "s3://bkt/d/links.h5", "beside", "named", "virtual", **endpoint,
                                 **KEYS)
        assert out.split() == [str(r.right[0])] * 3, out + err[-3000:]


def is_there(seconds=500):
    """Whether versitygw is there; if containers/extras builds it just now, once that is over."""
    end, free = time.monotonic() + seconds, 0
    while not shutil.which("versitygw") and free < 3 and time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            with contextlib.suppress(FileNotFoundError), open("/extras/lock.s3") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            free += 1       # nobody builds it; or its links are just being laid
        time.sleep(1)
    return shutil.which("versitygw")


def real_mounts(tap, g, r):
    if not mount.may_mount():
        return tap.skip("mounts", "no right to mount, or no /dev/fuse")
    env, right = r.env(AWS_ENDPOINT_URL_S3=g.base), r.file.read_bytes()
    keys = env | KEYS
    name = pathlib.Path(NAME).name

    g.ask("PUT", "/tree")
    g.ask("PUT", f"/tree/d/{s3_sign.quote(name)}", right)

    @contextlib.contextmanager
    def mounted(env, url):
        with harness.shadow_dir() as shadow, mount.Mount(env | {"XHDF5_SHADOW_DIR": str(shadow)}, url) as m:
            yield m
            r.said.append(m.log().encode())

    def operations(since):
        return [m[1] for line in g.lines()[since:] if "xhdf5/" in line and (m := re.search(r" s3_(\w+)", line))]

    with tap.claim("a prefix is a directory: listed with sizes and dates, by one request, and read"), \
            mounted(keys, "s3://tree/d/") as m:
        since = len(g.lines())
        (one,) = os.scandir(m.dir)
        assert (one.name, one.stat().st_size) == (name, len(right)), one
        assert operations(since) == ["ListObjectsV2"], operations(since)
        assert (m / name).read_bytes() == right
        assert (m / name).stat() == one.stat() and "ListObjectsV2" not in operations(since)[1:], operations(since)
    with tap.claim("a bucket, too; what lies below it is found by name, and what does not lie there is not"), \
            mounted(keys, "s3://tree") as m:
        assert (m / "d" / name).read_bytes() == right
        assert mount.failure(lambda: os.stat(m / "d/none")) == mount.failure(lambda: os.stat(m / "none")) == 2
        assert os.listdir(m.dir) == ["d"] and os.listdir(m / "d") == [name]
    many = g.dir / "root/tree/many"
    many.mkdir()
    odd = {"a%20b.h5", "ü&<x>'\"+.h5", "a=b c", "sub"}
    for one in {f"{i:04}" for i in range(1500)} | odd - {"sub"} | {"what?.h5", "a#b"}:
        (many / one).write_bytes(b"x" * len(one))
    (many / "sub").mkdir()
    (many / "sub/y").write_bytes(b"yy")
    with tap.claim("a long listing comes in parts; names are what the keys are, but those that s3:// cannot name"), \
            mounted(keys, "s3://tree/many/") as m:
        since = len(g.lines())
        found, wanted = set(os.listdir(m.dir)), {f"{i:04}" for i in range(1500)} | odd
        assert found == wanted, (found - wanted, wanted - found)
        assert operations(since) == ["ListObjectsV2"] * 2, operations(since)
        for one in odd - {"sub"}:
            assert (m / one).read_bytes() == b"x" * len(one), one
        assert (m / "sub/y").read_bytes() == b"yy"
    with tap.claim("the server's region is used, whatever the environment says"), \
            mounted(keys | {"AWS_REGION": "eu-west-9"}, "s3://tree/d/") as m:
        assert os.listdir(m.dir) == [name]
    with tap.claim("who may not list reads by name"), mounted(env, "s3://open/d/") as m:
        assert os.listdir(m.dir) == [] and "does not list" in m.log(), m.log()
        assert (m / name).read_bytes() == right
    with tap.claim("a prefix or a bucket that is not there is an error at the start"):
        for url in ("s3://tree/none/", "s3://nobody/"):
            status, _, err = harness.run([TOOL, "mount", url, g.dir], keys)
            assert status == 3 and "there is no" in err, (url, err)


def versitygw(tap):
    if not is_there():
        return tap.skip("versitygw", "containers/extras s3 did not bring it")
    with tempfile.TemporaryDirectory(prefix="xh-s3-") as d, Gateway(pathlib.Path(d)) as g:
        r = Reader(pathlib.Path(d), g.cacert)
        g.fill(r.file.read_bytes())
        for part in (real_keys, real_hosts, real_refusals, real_objects, real_mounts):
            part(tap, g, r)
        r.kept_secrets(tap, g.dir / "out")
        log = g.log.read_text()
        tap.ok(SECRET not in log and SESSION not in log, "nor do the server's notes have the secret")


# ---- one that lies

def lying(tap, liar, r):
    endpoint = {"AWS_ENDPOINT_URL_S3": liar.base}

    def asked(fault):
        return [one for path, all_ in liar.requests().items() if f"/{fault}/" in path for one in all_]
    for fault in ("s3-301", "s3-400"):
        with tap.claim(f"{fault}: what the server calls its region is signed for, and asked for once in a process"):
            liar.reset()
            r.reads(f"s3://{fault}/x.h5", f"s3://{fault}/x.h5", **endpoint, **KEYS)
            assert sum(one["status"] in (301, 400) for one in asked(fault)) == 1, asked(fault)
        with tap.claim(f"{fault}: the doctor looks for sidecars in that region too"):
            out = r.run(TOOL, "doctor", "--quick", f"s3://{fault}/x.h5", XHDF5_SIDECAR="auto", **endpoint, **KEYS)[1]
            assert "image" in out and "(status" not in out, out
            body, = (all_ for path, all_ in liar.requests().items() if path.startswith(f"/{fault}/x.h5.xhbody"))
            assert [one["status"] for one in body] == [206], "the region is found out again for each name"
    for fault, words in (("s3-regions", ("endpoint",)), ("s3-forged", ("endpoint",))):
        with tap.claim(f"{fault}: what leads nowhere ends, and says what to set"):
            liar.reset()
            r.refused(f"s3://{fault}/x.h5", "OSError", "301 PermanentRedirect", "AWS_REGION", *words, **endpoint,
                      **KEYS)
            assert len(asked(fault)) <= 12, len(asked(fault))
    with tap.claim("503 SlowDown is waited for"):
        r.reads("s3://s3-slow/x.h5", **endpoint, **KEYS)
    with tap.claim("RequestTimeTooSkewed tells both clocks, and is not tried again"):
        liar.reset()
        r.refused("s3://s3-skew/x.h5", "PermissionError", "RequestTimeTooSkewed", "this machine's clock says 20",
                  "the server's 20", **endpoint, **KEYS)
        assert len(asked("s3-skew")) == 1
    with tap.claim("a key that the server does not know spoils nothing public; what is private says both"):
        r.reads("s3://s3-key/x.h5", **endpoint, **KEYS)
        r.refused("s3://s3-private/x.h5", "PermissionError", "AccessDenied", "InvalidAccessKeyId", **endpoint, **KEYS)
    with tap.claim("a server that repeats all that it was sent makes us show nothing of it"):
        r.refused("s3://s3-echo/x.h5", "PermissionError", "SignatureDoesNotMatch", **endpoint, **KEYS,
                  AWS_SESSION_TOKEN=SESSION)
    with tap.claim("403 for sidecars that are not there is their absence"):
        r.reads("s3://s3-lists/x.h5", XHDF5_SIDECAR="auto", **endpoint, **KEYS)
        assert "ignored" not in r.log
    with tap.claim("no request has several ranges, as S3 would send all of the object"):
        liar.reset()
        r.reads("s3://s3-ranges/x.h5", **endpoint, **KEYS)
        assert asked("s3-ranges") and not any("," in (one["range"] or "") for one in asked("s3-ranges"))


def temporary(tap, liar, r):
    endpoint = {"AWS_ENDPOINT_URL_S3": liar.base}
    key = f"[default]\naws_access_key_id={ID}\naws_secret_access_key={SECRET}\naws_session_token="
    with tap.claim("an expired session token: it is said, with where it is from, and the file is looked at once more"):
        r.aws("credentials", key + SESSION + "\n")
        r.refused("s3://s3-expired/x.h5", "PermissionError", "ExpiredToken", ".aws/credentials", "expired", **endpoint)
    with tap.claim("a session token goes with each request"):
        r.aws("credentials", key + "new\n")
        liar.reset()
        r.reads("s3://s3-expired/x.h5", **endpoint)
        assert all(one["session"] and one["signed"] for all_ in liar.requests().values() for one in all_)
    code = """
import os, sys, h5py
f = h5py.File(sys.argv[1])
os.replace(sys.argv[2] + ".next", sys.argv[2])
print(f["rows"][:, 7].tolist() == [i * 65536 + 7 for i in range(24)])
"""
    with tap.claim("one that expires while the file is open is looked for in its file, once, and reading goes on"):
        r.aws("credentials", key + "old\n")
        r.aws("credentials.next", key + "new\n")
        status, out, err = r.run(H5PY, "-c", code, "s3://s3-expires/x.h5", r.home / ".aws/credentials", **endpoint,
                                 XHDF5_READAHEAD="off")
        assert out.strip() == "True", out + err[-3000:]
    with tap.claim("keys whose end a credential_process told are renewed before it"):
        r.no_aws()
        soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))
        program = r.aws("keys", "#!/bin/sh\ncat $HOME/.aws/printed\n")
        program.chmod(0o755)
        def printed(token, ends):
            return json.dumps({"Version": 1, "AccessKeyId": ID, "SecretAccessKey": SECRET, "SessionToken": token,
                               "Expiration": ends})
        r.aws("printed", printed("old", soon))
        r.aws("printed.next", printed("new", "2099-01-01T00:00:00Z"))
        r.aws("config", f"[default]\ncredential_process = {program}\n")
        liar.reset()
        later = code.replace("print(", "for i in range(12):    # it is looked for every two seconds\n"
                             "    f['rows'][i, :7]\n    __import__('time').sleep(.2)\nprint(")
        status, out, err = r.run(H5PY, "-c", later, "s3://s3-lasts/y.h5", r.home / ".aws/printed", **endpoint,
                                 XHDF5_READAHEAD="off")
        assert out.strip() == "True", out + err[-3000:]
        assert re.search(r" token .*renewed=1", err), err[-3000:]
    slow = ("#!/bin/sh\necho run >>$HOME/.aws/runs\ncat $HOME/.aws/printed\n"
            "while [ -e $HOME/.aws/hold ]; do sleep .05; done\n")
    with tap.claim("while a program makes new keys, reading goes on with the old ones"):
        r.aws("keys", slow).chmod(0o755)
        r.aws("printed", printed("old", soon))
        r.aws("printed.next", printed("new", "2099-01-01T00:00:00Z"))
        liar.reset()
        both = """
import os, pathlib, sys, time, h5py
f = h5py.File(sys.argv[1])
aws = pathlib.Path(sys.argv[2]).parent
os.replace(aws / "printed.next", aws / "printed")
(aws / "hold").touch()
before, seen = (aws / "runs").read_text(), 0
for i in range(24):
    f["rows"][i, :7]
    seen += (aws / "runs").read_text() != before
    if seen == 4:
        (aws / "hold").unlink()
    time.sleep(.2)
print(seen > 4, f["rows"][:, 7].tolist() == [i * 65536 + 7 for i in range(24)])
"""
        status, out, err = r.run(H5PY, "-c", both, "s3://s3-lasts/z.h5", r.home / ".aws/printed", **endpoint,
                                 XHDF5_READAHEAD="off")
        assert out.strip() == "True True", out + err[-3000:]
        assert re.search(r" token .*renewed=1", err), err[-3000:]
    with tap.claim("when they are refused, the program is waited for, and reading goes on"):
        r.no_aws()
        r.aws("keys", slow.partition("while")[0] + "sleep 3\n").chmod(0o755)
        r.aws("printed", printed("old", "2099-01-01T00:00:00Z"))
        r.aws("printed.next", printed("new", "2099-01-01T00:00:00Z"))
        r.aws("config", f"[default]\ncredential_process = {program}\n")
        liar.reset()
        status, out, err = r.run(H5PY, "-c", code, "s3://s3-expires/q.h5", r.home / ".aws/printed", **endpoint,
                                 XHDF5_READAHEAD="off")
        assert out.strip() == "True", out + err[-3000:]
        refused = [one for all_ in liar.requests().values() for one in all_ if one["status"] == 400]
        assert 1 <= len(refused) <= 24, refused
        r.no_aws()


def metadata(tap, liar, r):
    """The metadata services of machines and containers: at the liar's plain port, and at nobody's."""
    http = liar.http
    endpoint = {"AWS_ENDPOINT_URL_S3": liar.base}
    machine = endpoint | {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"{http}/metadata"}
    container = endpoint | {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{http}/metadata/container"}
    on = {"XHDF5_AWS_METADATA": "on"}
    token = r.home / "token"
    token.write_text("Bearer token-of-the-container\n")

    def asked():
        return [path for path in liar.requests() if path.startswith("/metadata")]
    with tap.claim("no metadata service is asked but where the option aws_metadata is on, and no key is found"):
        liar.reset()
        for env in (machine, container | {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)}):
            r.refused("s3://s3-machine/x.h5", "PermissionError", "without a key", **env)
            r.refused("s3://s3-machine/x.h5", "PermissionError", "AWS_ACCESS_KEY_ID was sent", **env, **on, **KEYS)
            r.refused("s3://s3-machine/x.h5", "PermissionError", "nobody", **env, **on, AWS_PROFILE="nobody")
            r.refused("s3://s3-machine/x.h5", "PermissionError", "aws_no_sign_request", **env, **on,
                      AWS_NO_SIGN_REQUEST="true")
        r.refused("s3://s3-machine/x.h5", "PermissionError", "AWS_EC2_METADATA_DISABLED", **machine, **on,
                  AWS_EC2_METADATA_DISABLED="true")
        r.reads(f"{liar.base}/ok/x.h5", **machine, **on, XHDF5_S3="off")
        assert not asked(), asked()
    with tap.claim("a machine's is asked for a token, its role and the keys, over no proxy, once for several files"):
        liar.reset()
        r.reads("s3://s3-machine/x.h5", "s3://s3-machine/y.h5", **machine, **on, http_proxy="http://127.0.0.1:9")
        assert len(asked()) == 3 and all(len(liar.requests()[path]) == 1 for path in asked()), liar.requests()
    with tap.claim("a container's is asked with its token, of the file or of the variable"):
        for how in ({"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token)},
                    {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "Bearer token-of-the-container"}):
            r.reads("s3://s3-container/x.h5", **container, **on, **how)
        r.refused("s3://s3-container/x.h5", "PermissionError", "container's metadata service", "status", **container,
                  **on, AWS_CONTAINER_AUTHORIZATION_TOKEN="Bearer another")
        r.refused("s3://s3-container/x.h5", "PermissionError", "TOKEN_FILE", **container, **on,
                  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="/no/such/file")
    with tap.claim("what is no such service is told of in the error, and what it answers is followed nowhere"):
        for fault, words in (("none", "status is not 200"), ("hostile", "names no role"), ("away", "status is not 200"),
                             ("page", "answers with no key")):
            liar.reset()
            r.refused("s3://s3-machine/x.h5", "PermissionError", "machine's metadata service", words, **endpoint, **on,
                      AWS_EC2_METADATA_SERVICE_ENDPOINT=f"{http}/metadata-{fault}")
            assert all(path.startswith(f"/metadata-{fault}/") for path in asked()), asked()
        r.refused("s3://s3-machine/x.h5", "PermissionError", "does not answer", **endpoint, **on,
                  AWS_EC2_METADATA_SERVICE_ENDPOINT=f"http://127.0.0.1:{harness.free_port()}")
        for far in ("http://example.org", "http://127.evil.org", "https://127.0.0.1", "http://me:x@127.0.0.1",
                    "http://169.254.169.254.evil.org"):
            r.refused("s3://s3-machine/x.h5", "PermissionError", "metadata service, which", **endpoint, **on,
                      AWS_EC2_METADATA_SERVICE_ENDPOINT=far)
        r.refused("s3://s3-container/x.h5", "PermissionError", "container's metadata service, which has no URL",
                  **endpoint, **on, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="@evil.org/x")
    with tap.claim("nor is it asked for what a file names elsewhere"), tempfile.TemporaryDirectory() as d:
        code = ("import sys, h5py\nwith h5py.File(sys.argv[1], 'w') as f:\n"
                "    f['there'] = h5py.ExternalLink('s3://s3-machine/x.h5', '/a')\n")
        harness.run([H5PY, "-c", code, f"{d}/links.h5"], harness.clean_env())
        liar.reset()
        status, out, err = r.run(H5PY, "-c", "import sys, h5py\nh5py.File(sys.argv[1])['there']", f"{d}/links.h5",
                                 **machine, **on)
        assert status and not asked(), out + err[-2000:]


    with tap.claim("no redirect leads to a link-local address, nor does a file; the program's own URL does"):
        quick = {"XHDF5_CONNECT_TIMEOUT_MS": "300", "XHDF5_RETRIES": "0"}
        near = "link-local"
        r.refused(f"{http}/redirect-near/x.h5", "PermissionError", near, "169.254.169.254")
        r.refused(f"{liar.base}/redirect-near:https/x.h5", "PermissionError", near)
        said = r.read("http://169.254.169.254/latest/x.h5", **quick)[0]
        assert near not in said[1], said
        said = r.read(f"{http}/redirect-near/y.h5", XHDF5_CREDENTIAL_HOSTS="169.254.169.254", **quick)[0]
        assert near not in said[1], said
        names = ("http://169.254.169.254/x.h5", "https://169.254.169.254/x.h5", "http://2852039166/x.h5",
                 "http://0xa9fea9fe/x.h5", "http://[::ffff:169.254.169.254]/x.h5", "http://[fe80::1]/x.h5",
                 "http://[fd00:ec2::254]/x.h5")
        code = ("import sys, h5py\nwith h5py.File(sys.argv[1], 'w') as f:\n"
                "    for i, name in enumerate(sys.argv[2:]):\n        f[str(i)] = h5py.ExternalLink(name, '/a')\n")
        with tempfile.TemporaryDirectory() as d:
            harness.run([H5PY, "-c", code, f"{d}/links.h5", *names], harness.clean_env())
            read = ("import sys, h5py\nfor name in h5py.File(sys.argv[1]):\n    try:\n"
                    "        h5py.File(sys.argv[1])[name]\n    except Exception as e:\n        print(name, e)\n")
            out = r.run(H5PY, "-c", read, f"{d}/links.h5", **quick)[1]
            lines = out.splitlines()
            assert len(lines) == len(names) and all(near in line for line in lines), out


def amazon(tap, liar, r):
    """Amazon's hosts, for which a proxy takes the liar."""
    port = int(liar.base.rpartition(":")[2])

    def hosts():
        return {(one["host"], one["signed"]) for all_ in liar.requests().values() for one in all_}
    with connect_proxy.Proxy(all_at=port) as p:
        proxy = {"https_proxy": f"http://127.0.0.1:{p.port}"}
        for fault in ("s3-301", "s3-307"):
            for keys in (KEYS, {}):
                how = "with" if keys else "without"
                with tap.claim(f"{fault} at Amazon, {how} keys: the bucket's own region is asked"):
                    liar.reset()
                    r.reads(f"s3://bkt/{fault}/x.h5", **proxy, **keys)
                    assert hosts() == {(f"bkt.s3{region}.amazonaws.com", bool(keys))
                                       for region in ("", ".eu-west-1")}, hosts()
        with tap.claim("a bucket with a dot in its name stands in the path"):
            liar.reset()
            r.refused("s3://my.bkt/x.h5", "FileNotFoundError", **proxy, **KEYS)
            assert p.connections()[-1][0].startswith("CONNECT s3.amazonaws.com:443"), p.connections()
        with tap.claim("the https URL of a bucket at Amazon is signed, too"):
            liar.reset()
            r.reads("https://bkt.s3.eu-west-1.amazonaws.com/s3-301/x.h5", **proxy, **KEYS)
            assert hosts() == {("bkt.s3.eu-west-1.amazonaws.com", True)}, hosts()
        with tap.claim("no key and no session token goes where a redirect leads out of the bucket"):
            liar.reset()
            r.reads("s3://bkt/s3-thief/x.h5", **proxy, **KEYS, AWS_SESSION_TOKEN=SESSION)
            assert ("evil.org", True) not in hosts() and ("evil.org", False) in hosts(), hosts()
            assert not any(one["session"] or one["authorization"] for all_ in liar.requests().values() for one in all_
                           if one["host"] == "evil.org")
        with tap.claim("a file does not send keys to a bucket that the user did not name; credential_hosts lets it"):
            with tempfile.TemporaryDirectory() as d:
                code = ("import sys, h5py\nwith h5py.File(sys.argv[1], 'w') as f:\n"
                        "    f['there'] = h5py.ExternalLink('s3://its/ok/x.h5', '/a')\n")
                harness.run([H5PY, "-c", code, f"{d}/links.h5"], harness.clean_env())
                read = "import sys, h5py\nprint(int(h5py.File(sys.argv[1])['there'][...].sum()))"
                for hosts_, signed in ({}, False), ({"XHDF5_CREDENTIAL_HOSTS": ".amazonaws.com"}, True):
                    liar.reset()
                    status, out, err = r.run(H5PY, "-c", read, f"{d}/links.h5", **proxy, **KEYS, **hosts_)
                    assert out.strip() == str(r.right[0]), out + err[-3000:]
                    assert hosts() == {("its.s3.amazonaws.com", signed)}, hosts()


@contextlib.contextmanager
def at_a_liar(tap):
    """A server that lies, and a reader; at the end, whether he kept his secrets."""
    with tempfile.TemporaryDirectory(prefix="xh-s3-") as d:
        pathlib.Path(d, "tls").mkdir()
        r = Reader(pathlib.Path(d), "")
        with faults.Liar(r.file, tls=f"{d}/tls") as liar:
            r.cacert = liar.cacert
            yield liar, r
        r.kept_secrets(tap)


def lies(tap):
    with at_a_liar(tap) as (liar, r):
        for part in (lying, temporary, metadata, amazon):
            part(tap, liar, r)


ALONE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c",
         "ip link set lo up && ip addr add 169.254.169.254/32 dev lo && exec \"$@\"", "sh"]


def near(tap):
    """A metadata service at its own address, on a network that has nothing else."""
    if harness.run([*ALONE, "true"], harness.clean_env())[0]:
        return tap.skip("a connection that is open", "no network of one's own can be made here")
    os.execvp(ALONE[0], [*ALONE, sys.executable, __file__, "alone"])


def alone(tap):
    with at_a_liar(tap) as (liar, r), faults.Liar(r.file, host="169.254.169.254", port=80) as service:
        with tap.claim("no redirect leads to a link-local address over a connection that the program's own URL opened"):
            own = f"{service.base}/ok/x.h5"
            first, then = r.read(own, f"{liar.http}/redirect-near/x.h5")
            assert first == r.right, first
            assert then[0] == "PermissionError" and "link-local" in then[1], then
            assert not any("latest" in path for path in service.requests()), service.requests()


def no_signatures(tap):
    """A libcurl whose signatures S3 does not take."""
    with at_a_liar(tap) as (liar, r):
        url, endpoint = "s3://ok/x.h5", {"AWS_ENDPOINT_URL_S3": liar.base}
        with tap.claim("with keys a clear error, and no request"):
            r.refused(url, "OSError", "makes no signatures for S3", "aws_no_sign_request", **endpoint, **KEYS)
            assert not liar.requests(), liar.requests()
        with tap.claim("without keys what is public is read"):
            r.reads(url, **endpoint)
            r.reads(url, XHDF5_AWS_NO_SIGN_REQUEST="on", **endpoint, **KEYS)


def main():
    tap = harness.Tap()
    if harness.libcurl() < (7, 88):
        no_signatures(tap)
        return tap.done()
    {"versitygw": versitygw, "liar": lies, "near": near, "alone": alone}[sys.argv[1]](tap)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
