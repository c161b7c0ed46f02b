#!/usr/bin/env python3
"""Hostile files: what a file names must not get the reader's credentials, nor the reader's local files.

usage: named.py BUILD_OF_TESTS    (the directory of test_named)

Three servers of one stock nginx, which write down every Authorization header and every certificate: home, where the
program's file lies; foreign, which no program names; and listed, which credential_hosts names. A file at home, and the same
file on the disk, name files everywhere, by external links, virtual datasets and external raw data. Each is opened through
every door: the C struct, HDF5_DRIVER, h5py's keyword, xhdf5.enable(), and lists of the program's own for the targets of
external links (H5Pset_elink_fapl), also where nothing else in the program knows of the driver.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import harness  # noqa: E402

sys.path.insert(0, str(harness.TOP / "server"))
import throwaway_ca  # noqa: E402
sys.path.insert(0, str(harness.TOP / "tests/integration"))
import sources  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
FORKY = pathlib.Path("/opt/forky")
TOKEN, PASSWORD = "the-readers-own-token", "the-readers-own-password"
OWN = {"token": f"Bearer {TOKEN}", "netrc": "Basic " + base64.b64encode(f"reader:{PASSWORD}".encode()).decode()}
NAMES = ("home", "foreign", "listed")

CONF = """
daemon off; pid RUN/nginx.pid; error_log RUN/error.log notice; worker_processes 1;
events {}
http {
    client_body_temp_path RUN/tmp; proxy_temp_path RUN/tmp; fastcgi_temp_path RUN/tmp; uwsgi_temp_path RUN/tmp;
    scgi_temp_path RUN/tmp;
    ssl_certificate RUN/server.pem; ssl_certificate_key RUN/server.key;
    ssl_client_certificate RUN/ca.pem; ssl_verify_client optional;
    log_format who 'auth="$http_authorization" cert="$ssl_client_s_dn" $request_method $uri $status';
    SERVERS
}
"""
SERVER = """
    server {
        listen 127.0.0.1:PORT ssl; root RUN/NAME; access_log RUN/NAME.log who;
        dav_methods PUT DELETE MKCOL MOVE; client_max_body_size 0;
        location /private/ { if ($http_authorization = "") { return 401; } }
        location /sent-home/ { return 302 https://127.0.0.1:HOME/private/near.h5; }
    }
"""
MAKE = """
import sys, json, h5py, numpy as np
files = json.loads(sys.argv[1])
for path, sets in files.items():
    with h5py.File(path, "w", libver=("latest", "latest") if "new" in path else None) as f:
        for name, (how, what) in sets.items():
            if how == "data":
                f[name] = np.full(50, float(what))
            elif how == "link":
                f[name] = h5py.ExternalLink(*what)
            elif how == "vds":
                layout = h5py.VirtualLayout((50,), "f8")
                layout[:] = h5py.VirtualSource(what[0], what[1], (50,))
                f.create_virtual_dataset(name, layout, fillvalue=-1)
            else:
                f.create_dataset(name, (50,), "f8", external=[(what, 0, 400)])
"""


# Opens FILE to write, and sums DATASET, or sets it to VALUE.
WRITTEN = """
import h5py, sys
with h5py.File(sys.argv[1], "r+") as f:
    d = f[sys.argv[2]]
    if sys.argv[3]:
        d[:] = float(sys.argv[3])
    print(f"{d[:].sum():.0f} values", flush=True)
    del d
"""
SUM = "import h5py, sys; print(h5py.File(sys.argv[1])['d'][:].sum())"


class Site:
    """The servers and what lies on them; a context."""

    def __enter__(self):
        self.run = pathlib.Path(tempfile.mkdtemp(prefix="xh-named-"))
        self.run.chmod(0o755)
        throwaway_ca.make_ca(self.run)
        throwaway_ca.make_server(self.run, self.run)
        throwaway_ca.make_user(self.run, self.run, "reader")
        self.cacert, self.local, self.cwd = str(self.run / "ca.pem"), self.run / "local", self.run / "cwd"
        ports = {name: harness.free_port() for name in NAMES}
        self.url = {name: f"https://127.0.0.1:{port}" for name, port in ports.items()}
        self.hosts = f"127.0.0.1:{ports['listed']}"
        (self.run / "netrc").write_text(f"default login reader password {PASSWORD}\n")
        (self.run / "netrc").chmod(0o600)
        servers = "".join(SERVER.replace("NAME", name).replace("PORT", str(port)).replace("HOME", str(ports["home"]))
                          for name, port in ports.items())
        (self.run / "nginx.conf").write_text(CONF.replace("SERVERS", servers).replace("RUN", str(self.run)))
        (self.run / "tmp").mkdir()
        self.make()
        self.nginx = subprocess.Popen(["nginx", "-e", self.run / "error.log", "-c", self.run / "nginx.conf"],
                                      stdin=subprocess.DEVNULL)
        for port in ports.values():
            harness.wait_port(port)
        return self

    def __exit__(self, *exc):
        self.nginx.terminate()
        self.nginx.wait(20)
        shutil.rmtree(self.run, ignore_errors=True)

    def make(self):
        """Data: 50 times one number, so that a sum says whose it is."""
        home, foreign, listed = (self.url[name] for name in NAMES)
        secret = str(self.local / "secret.h5")
        with_password = foreign.replace("//", "//owner:theirs@")
        named = {"near": "near.h5", "public": f"{foreign}/public.h5", "private": f"{foreign}/private/p.h5",
                 "listed": f"{listed}/private/p.h5", "back": f"{foreign}/back.h5", "own": f"{foreign}/back.h5",
                 "sent": f"{foreign}/sent-home/p.h5",
                 "theirs": f"{with_password}/private/p.h5", "absolute": secret, "up": "../" * 20 + secret[1:]}
        named["below"] = "sub/chain.h5"
        inner = {"back": "back", "own": "own", "below": "near"}
        hostile = {"d": ("data", 1)}
        for name, file in named.items():
            hostile[f"link_{name}"] = ("link", (file, inner.get(name, "d")))
            hostile[f"vds_{name}"] = ("vds", (file, inner.get(name, "d")))
        raw = {"ext_absolute": ("external", str(self.local / "secret.raw")), "ext_relative": ("external", "near.raw")}
        files = {}
        for directory in (self.run / "home/private", self.local):
            files |= {f"{directory}/{name}.h5": hostile for name in ("hostile", "hostile-new")}
            files |= {f"{directory}/raw{new}.h5": hostile | raw for new in ("", "-new")}
        files |= {f"{self.run}/home/private/near.h5": {"d": ("data", 2)},
                  f"{self.run}/home/private/sub/chain.h5": {"near": ("link", ("near.h5", "d"))},
                  f"{self.run}/home/private/sub/near.h5": {"d": ("data", 7)},
                  f"{self.run}/home/public.h5": {"d": ("data", 3)}}
        for name, value in (("foreign", 4), ("listed", 5)):
            files |= {f"{self.run}/{name}/{f}.h5": {"d": ("data", value)} for f in ("public", "private/p")}
        files |= {f"{self.run}/foreign/back.h5": {"back": ("link", (f"{home}/private/near.h5", "d")),
                                                  "own": ("link", ("private/p.h5", "d"))}}
        files |= {f"{self.cwd}/near.h5": {"d": ("data", 666)}, secret: {"d": ("data", 666)},
                  f"{self.local}/near.h5": {"d": ("data", 6)}}
        for path in files:
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        status, out, err = harness.run([harness.DATA_PYTHON, "-c", MAKE, json.dumps(files)], harness.clean_env())
        assert status == 0, out + err
        for path in (self.local / "secret.raw", self.cwd / "near.raw"):
            path.write_bytes(b"\0\0\0\0\0\xd0\x84@" * 50)    # 666.0
        (self.run / "home/private/near.raw").write_bytes(b"\0\0\0\0\0\0\0@" * 50)
        for path in self.run.rglob("*.h5"):
            path.chmod(0o666)
            path.parent.chmod(0o777)

    def logs(self):
        return {name: (self.run / f"{name}.log").read_text() for name in NAMES}


class Door:
    """One way to the driver, with one kind of credential."""

    def __init__(self, site, name, argv, credential, options_in_environment):
        self.site, self.name, self.argv, self.credential = site, name, argv, credential
        self.options = {"ca_bundle": site.cacert, "credential_hosts": site.hosts, "netrc": credential == "netrc"}
        env = harness.clean_env() | {"XHDF5_SHADOW": "off", "XHDF5_RETRIES": "1"}
        if options_in_environment:
            env |= {"XHDF5_CA_BUNDLE": site.cacert, "XHDF5_CREDENTIAL_HOSTS": site.hosts,
                    "XHDF5_NETRC": "on" if credential == "netrc" else "off"}
        if credential == "token":
            env |= {"BEARER_TOKEN": TOKEN, "X509_USER_CERT": str(site.run / "reader.pem"),
                    "X509_USER_KEY": str(site.run / "reader.key")}
        else:
            env |= {"NETRC": str(site.run / "netrc"), "BEARER_TOKEN_FILE": os.devnull}
        env["PYTHONPATH"] = str(harness.BUILD / "python")
        self.env = env

    def read(self, file, *names, **env):
        """{dataset: what was read: a number, or the text of the error}"""
        argv = [str(a) for a in self.argv(self, str(file))]
        status, out, err = harness.run([*argv, *names], self.env | env, cwd=self.site.cwd)
        assert status == 0, f"exit status {status}\n{out}\n{err[-2500:]}"
        found = dict(line.split(" ", 1) for line in out.splitlines())
        assert set(found) == set(names), out
        return {k: v if v.startswith("error") else float(v) / 50 for k, v in found.items()}


def doors(site, build):
    def c(door, file):
        return [build / "test_named", site.cacert, site.hosts, int(door.credential == "netrc"), 0, file]

    def python(exe, how):
        return lambda door, file: [*exe, HERE / "named_reader.py", how, file, json.dumps(door.options)]

    def with_driver(door):
        door.env |= {"HDF5_DRIVER": "xhdf5", "HDF5_PLUGIN_PATH": harness.plugin_dir()}
        return door
    def elink(door, how):
        door.env["ELINK"] = how
        if how == "name":
            door.env["HDF5_PLUGIN_PATH"] = harness.plugin_dir()
        return door
    for credential in ("token", "netrc"):
        yield Door(site, f"the C struct, {credential}", c, credential, False)
        yield elink(Door(site, f"elink_fapl in C, {credential}", c, credential, False), "struct")
        yield elink(Door(site, f"elink_fapl by name, {credential}", c, credential, False), "name")
        for version, exe in harness.H5PY.items():
            yield with_driver(Door(site, f"HDF5_DRIVER in h5py {version}, {credential}", python([exe], "env"),
                                   credential, True))
            yield with_driver(Door(site, f"elink_fapl in h5py {version}, {credential}", python([exe], "elink"),
                                   credential, True))
            yield Door(site, f"h5py {version}'s keyword, {credential}", python([exe], "keyword"), credential, False)
        yield Door(site, f"xhdf5.enable(), {credential}", python([exe], "enable"), credential, True)
        if (FORKY / "usr/bin/python3").exists() and os.geteuid() == 0:
            exe = harness.FORKY
            yield with_driver(Door(site, f"HDF5_DRIVER in HDF5 2.2, {credential}", python(exe, "env"), credential,
                                   True))
            yield with_driver(Door(site, f"elink_fapl in HDF5 2.2, {credential}", python(exe, "elink"), credential,
                                   True))


def refused(said, *words):
    assert isinstance(said, str) and all(w in said for w in words), said


def withheld(said, *words):
    refused(said, "401", "no token", "CREDENTIAL_HOSTS", *words)


def check_remote(tap, door, site):
    names = [f"{how}_{name}" for how in ("link", "vds")
             for name in ("near", "public", "listed", "theirs", "private", "back", "own", "sent", "absolute", "up")]
    got = door.read(f"{site.url['home']}/private/hostile.h5", *names)
    with tap.claim(f"a file at a URL names others: they get its options, and at its own server its credentials: {door.name}"):
        for how in ("link", "vds"):
            assert [got[f"{how}_{n}"] for n in ("near", "public", "listed", "theirs")] == [2, 4, 5, 4], got
    with tap.claim(f"a slash in a file's query is none of its path: what it names is beside it: {door.name}"):
        for query in ("", "?x=1", "?x=a/b", "?Key=a/b&x=/c/"):
            beside = [f"{how}_{name}" for how in ("link", "vds") for name in ("near", "below")]
            got_beside = door.read(f"{site.url['home']}/private/hostile.h5{query}", *beside, "vds_public")
            assert list(got_beside.values()) == [2, 7, 2, 7, 4], (query, got_beside)
    with tap.claim(f"a foreign server that wants credentials gets none, and the error says why and what to do: {door.name}"):
        for name in ("private", "back", "own", "sent"):
            withheld(got[f"link_{name}"])
        for name in ("private", "sent"):
            withheld(got[f"vds_{name}"])
        assert got["vds_back"] == -1 or isinstance(got["vds_back"], str), got
    with tap.claim(f"a file at a URL does not reach local files: {door.name}"):
        for how in ("link", "vds"):
            refused(got[f"{how}_absolute"], "secret.h5", "local_sources")
        refused(got["link_up"])
        assert got["vds_up"] != 666, got


def check_raw(tap, door, site):
    with tap.claim(f"external raw data of a file at a URL is refused, and the error names the file: {door.name}"):
        for new in ("", "-new") if "struct" in door.name else ("-new",):
            got = door.read(f"{site.url['home']}/private/raw{new}.h5", "d", "ext_absolute", "ext_relative")
            assert got["d"] == 1, got
            refused(got["ext_absolute"], f"{site.local}/secret.raw", "local_sources")
            refused(got["ext_relative"], "'near.raw'", "local_sources")


def check_local(tap, door, site):
    names = [f"{how}_{name}" for how in ("link", "vds")
             for name in ("near", "public", "listed", "private", "back", "absolute")]
    got = door.read(site.local / "raw-new.h5", *names, "ext_absolute")
    with tap.claim(f"a file on the disk names URLs: they get its options, and credentials at listed servers alone: {door.name}"):
        for how in ("link", "vds"):
            assert [got[f"{how}_{n}"] for n in ("near", "public", "listed", "absolute")] == [6, 4, 5, 666], got
        withheld(got["link_private"], "raw-new.h5")
        withheld(got["link_back"])
        assert got["ext_absolute"] == 666, got


def check_links(tap, door, site):
    names = [f"link_{name}" for name in ("near", "public", "listed", "private", "back", "absolute")]
    with tap.claim(f"a file of another driver names URLs: credentials go to listed servers alone: {door.name}"):
        got = door.read(site.local / "raw-new.h5", *names)
        assert [got[f"link_{n}"] for n in ("near", "public", "listed", "absolute")] == [6, 4, 5, 666], got
        withheld(got["link_private"], "raw-new.h5")
        withheld(got["link_back"])


def check_allowed(tap, door, site):
    with tap.claim(f"with local_sources a file at a URL reads local files, as the user wants: {door.name}"):
        got = door.read(f"{site.url['home']}/private/raw.h5", "link_absolute", "vds_absolute", "ext_absolute",
                        XHDF5_LOCAL_SOURCES="on")
        assert set(got.values()) == {666}, got


def check_layouts(tap, site, build):
    """External raw data is found however the file is laid out, and HDF5 reads it."""
    made = site.run / "home/layouts"
    made.mkdir()
    status, out, err = harness.run([build / "test_named", "make", made, site.local / "secret.raw"], harness.clean_env())
    assert status == 0, out + err
    for file, buffer in (("old", 0), ("latest", 0), ("image", 0), ("block", 0), ("paged", 0), ("paged", 65536)):
        with tap.claim(f"external raw data is refused: {file}, page buffer of {buffer}"):
            argv = [build / "test_named", site.cacert, "", 0, buffer]
            env = harness.clean_env() | {"BEARER_TOKEN_FILE": os.devnull}
            for url, want in ((f"{made}/{file}.h5", "ext 33300"),
                              (f"{site.url['home']}/layouts/{file}.h5", "(ext|open) error")):
                status, out, err = harness.run([str(a) for a in (*argv, url, "ext")], env)
                assert status == 0 and re.match(want, out), out + err
            assert ("secret.raw" in out or file == "image") and "local_sources" in out, out


PARTS = """
import h5py, sys
name, raw = sys.argv[1:]
if raw:
    for version in "earliest", "latest":
        with h5py.File(name.replace("VERSION", version), "w", driver="family", memb_size=4096,
                       libver=(version, "latest")) as f:
            for i in range(60):
                f.create_group(f"g{i}")
            f.create_dataset("ext", (50,), "f8", external=[(raw, 0, 400)])
            f["d"] = range(4000)
for version in "earliest", "latest":
    with h5py.File(name.replace("VERSION", version), driver="family", memb_size=4096) as f:
        print(f["d"][:].sum(), len(f["g0"]))
        try:
            print(f["ext"][:].sum())
        except Exception as e:
            print(e)
"""


def check_parts(tap, site):
    """A file of several: what its first one says of addresses does not stand in the others."""
    names = "parts/VERSION_%d.h5"
    made = site.run / "home/parts"
    made.mkdir()
    for version, python in harness.H5PY.items():
        with tap.claim(f"external raw data is refused: h5py {version}'s driver family"):
            env = harness.clean_env() | {"BEARER_TOKEN_FILE": os.devnull, "XHDF5_CA_BUNDLE": site.cacert,
                                         "HDF5_PLUGIN_PATH": harness.plugin_dir()}
            made_of = [site.run / "home" / names, site.local / "secret.raw"]
            status, out, err = harness.run([python, "-c", PARTS, *made_of], env)
            assert (status, out) == (0, 2 * "7998000 0\n33300.0\n"), out + err
            status, out, err = harness.run([python, "-c", PARTS, f"{site.url['home']}/{names}", ""],
                                           env | {"HDF5_DRIVER": "xhdf5"})
            assert status == 0 and re.fullmatch("(7998000 0\n.* has a dataset whose data is in the external file .*"
                                                "local_sources.*\n){2}", out), out + err


def check_kept(site, kept, env, value_at):
    """Of the overlay |kept| of foreign/public.h5, which a file named."""
    cert = {"X509_USER_CERT": str(site.run / "reader.pem"), "X509_USER_KEY": str(site.run / "reader.key")}
    options = {"XHDF5_CA_BUNDLE": site.cacert, "XHDF5_OVERLAY_DIR": str(site.run / "overlay"),
               "XHDF5_CREDENTIAL_HOSTS": site.hosts}
    copy, file = site.run / f"{kept}.h5", site.run / "foreign/public.h5"
    was = file.read_bytes()

    def recover(env, *args):
        before = len(site.logs()["foreign"])
        status, out, err = harness.run([str(harness.BUILD / "vfd/tool/xhdf5"), "recover", *map(str, args)],
                                       env | options, cwd=site.cwd)
        return status, out + err, site.logs()["foreign"][before:]
    status, said, log = recover(env | cert, "export", kept, copy)
    assert status == 0 and value_at(copy.name) == 17 * 50 and "GET" in log, (said, log)
    assert set(re.findall(r'auth="([^"]*)" cert="([^"]*)"', log)) == {("-", "-")}, log
    status, said, log = recover(env | cert, "retry", kept)
    assert status == 3 and "XHDF5_CREDENTIAL_HOSTS" in said and "hostile.h5" in said and not log, (said, log)
    options["XHDF5_CREDENTIAL_HOSTS"] = site.url["foreign"].removeprefix("https://")
    bare = {k: v for k, v in env.items() if k != "BEARER_TOKEN"} | {"BEARER_TOKEN_FILE": os.devnull}
    status, said, log = recover(bare, "retry", kept)
    assert status == 0 and "MOVE" in log and value_at("foreign/public.h5") == 17 * 50, (said, log)
    file.write_bytes(was)


# Changes the file of its first argument, and keeps that here.
OLDER = """
import ctypes, h5py, os, sys
f = h5py.File(sys.argv[1], "r+")
f[next(iter(f))][...] = 18
lib = ctypes.CDLL(next(x.split()[-1] for x in open("/proc/self/maps") if "libhdf5_vfd_xhdf5" in x))
assert lib.H5FDxhdf5_discard(ctypes.c_int64(f.id.id), 1) >= 0
f.close()
"""


def check_older(tap, site):
    """What an older version has kept does not tell whether the program or a file named its URL."""
    with tap.claim("what an older version has kept is sent no token, certificate or password of the user's, and not "
                   "sent at all, unless the server is listed"):
        overlay = site.run / "older"
        env = harness.driver_env(None, None, writable="on", ca_bundle=site.cacert, overlay_dir=overlay, retries=0)
        env |= {"XHDF5_SHADOW": "off", "BEARER_TOKEN": TOKEN, "HDF5_USE_FILE_LOCKING": "FALSE"}
        url, file = f"{site.url['home']}/private/near.h5", site.run / "home/private/near.h5"

        def run(*argv):
            before = len(site.logs()["home"])
            status, out, err = harness.run([str(a) for a in argv], env, cwd=site.cwd)
            return status, out + err, site.logs()["home"][before:]
        status, said, _ = run(*sources.PYTHONS["2.0"], "-c", OLDER, url)
        assert status == 0, said
        [kept] = [q.name for q in overlay.iterdir()]
        tool = harness.BUILD / "vfd/tool/xhdf5"
        record = overlay / kept / "record"
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("named_")))
        status, said, log = run(tool, "recover", "retry", kept)
        assert status == 3 and "XHDF5_CREDENTIAL_HOSTS" in said and "older" in said and not log, (status, said, log)
        status, said, log = run(tool, "recover", "export", kept, site.run / "older.h5")
        assert "GET" in log and set(re.findall(r'auth="([^"]*)" cert="([^"]*)"', log)) == {("-", "-")}, log
        env["XHDF5_CREDENTIAL_HOSTS"] = site.url["home"].removeprefix("https://")
        was = file.read_bytes()
        status, said, log = run(tool, "recover", "retry", kept)
        assert status == 0 and "MOVE" in log and file.read_bytes() != was, (status, said, log)
        file.write_bytes(was)


def check_written(tap, site):
    """What a file names, where that file is open to be written."""
    for version, exe in sources.PYTHONS.items():
        if version == "2.2" and not (FORKY / "usr/bin/python3").exists():
            continue
        env = harness.driver_env(None, None, writable="on", ca_bundle=site.cacert, credential_hosts=site.hosts,
                                 overlay_dir=site.run / "overlay")
        env |= {"XHDF5_SHADOW": "off", "BEARER_TOKEN": TOKEN, "HDF5_USE_FILE_LOCKING": "FALSE"}

        def run(file, dataset, value):
            before = site.logs()
            status, out, err = harness.run([*exe, "-c", WRITTEN, file, dataset, str(value)], env, cwd=site.cwd)
            return out, err, {k: re.findall(r"(PUT|MKCOL|MOVE|DELETE)", v[len(before[k]):])
                              for k, v in site.logs().items()}

        def value_at(name):
            status, out, err = harness.run([harness.DATA_PYTHON, "-c", SUM, site.run / name], harness.clean_env())
            assert status == 0, err
            return float(out)
        for where, file in (("at a URL", f"{site.url['home']}/private/hostile.h5"),
                            ("on the disk", site.local / "hostile.h5")):
            what = f"HDF5 {version}, a file {where} that is open to be written"
            with tap.claim(f"{what}: what it names at a foreign server is read"):
                for dataset in ("link_public", "vds_public"):
                    out, err, sent = run(file, dataset, "")
                    assert out.startswith("200 "), out + err
                    assert not sent["foreign"], sent
            with tap.claim(f"{what}: nothing is written at a foreign server, and an error says so"):
                out, err, sent = run(file, "link_public", 17)
                assert "XHDF5_CREDENTIAL_HOSTS" in err and "hostile.h5" in err and "/public.h5" in err, out + err
                assert not sent["foreign"] and value_at("foreign/public.h5") == 200, (sent, out + err)
            with tap.claim(f"{what}: what is kept of that is exported without the user's credentials, and sent if the "
                           "server is listed"):
                check_kept(site, re.search(r"recover export ([0-9a-f]{16})", err)[1], env, value_at)
            with tap.claim(f"{what}: at a listed server what it names is written"):
                for value in (17, 5):
                    out, err, sent = run(file, "link_listed", value)
                    assert "MOVE" in sent["listed"] and value_at("listed/private/p.h5") == 50 * value, (sent, out + err)
        with tap.claim(f"HDF5 {version}, a file at a URL that is open to be written: so it is at the file's server"):
            for value in (17, 2):
                out, err, sent = run(f"{site.url['home']}/private/hostile.h5", "link_near", value)
                assert "MOVE" in sent["home"] and value_at("home/private/near.h5") == 50 * value, (sent, out + err)


def check_doctor(tap, site):
    with tap.claim("xhdf5 doctor looks for what a file names where reading does, also if its query has a slash"):
        env = harness.clean_env() | {"BEARER_TOKEN": TOKEN, "XHDF5_CA_BUNDLE": site.cacert, "XHDF5_SHADOW": "off"}
        failed = []
        for query in ("", "?x=a/b"):
            argv = [harness.BUILD / "vfd/tool/xhdf5", "doctor", "--quick", "--json",
                    f"{site.url['home']}/private/hostile.h5{query}"]
            status, out, err = harness.run([str(a) for a in argv], env, cwd=site.cwd)
            failed.append({s["url"] for s in json.loads(out)["steps"] if s["step"] == "source"})
        assert failed[0] == failed[1] and any(url.endswith("/secret.h5") for url in failed[0]), failed


def check_logs(tap, site):
    logs = site.logs()
    own = set(OWN.values())
    with tap.claim("there is something to search: home has seen token, certificate and password"):
        assert all(value in logs["home"] and value in logs["listed"] for value in own), logs["home"][:2000]
        assert 'cert="CN=reader"' in logs["home"] and 'cert="CN=reader"' in logs["listed"], logs["home"][:2000]
        assert logs["foreign"].count("\n") > 20
    with tap.claim("the foreign server has seen no token, no certificate, no password, at no door; only what the file itself said"):
        seen = set(re.findall(r'auth="([^"]*)" cert="([^"]*)"', logs["foreign"]))
        theirs = "Basic " + base64.b64encode(b"owner:theirs").decode()
        assert seen == {("-", "-"), (theirs, "-")}, seen


def main():
    build = pathlib.Path(sys.argv[1])
    tap = harness.Tap()
    with Site() as site:
        for door in doors(site, build):
            if "by name" in door.name:    # HDF5's own driver opens the file, and what its virtual datasets name
                check_links(tap, door, site)
                continue
            check_remote(tap, door, site)
            check_local(tap, door, site)
            if door.credential == "token" and "elink" not in door.name:
                check_raw(tap, door, site)
            if door.credential == "token" and re.search(r"struct|3\.16\.0's|2\.2", door.name):
                check_allowed(tap, door, site)
        check_parts(tap, site)
        check_layouts(tap, site, build)
        check_older(tap, site)
        check_written(tap, site)
        check_doctor(tap, site)
        check_logs(tap, site)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
