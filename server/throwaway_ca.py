"""A throw-away CA and a certificate for loopback, made by openssl; for tests and demos only."""
import ipaddress
import os
import pathlib
import subprocess


def openssl(*words, cwd):
    r = subprocess.run(["openssl", *words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"openssl {words[0]}: {r.stderr.strip()}")


KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def make_ca(directory):
    """Writes ca.pem and ca.key, good for 8 days."""
    d = pathlib.Path(directory)
    openssl("req", "-x509", *KEY, "-days", "8", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=xhdf5 throw-away CA", "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign", cwd=d)
    os.chmod(d / "ca.pem", 0o644)


def sign(directory, ca, name, subject, days, *extensions, dates=None):
    """Writes NAME.pem, signed with the CA in |ca|, and NAME.key, for its owner alone. |dates|: from when and until when
    it is good, as YYYYMMDDHHMMSSZ, instead of |days|."""
    d, ca = pathlib.Path(directory), pathlib.Path(ca).resolve()
    until = ["-not_before", dates[0], "-not_after", dates[1]] if dates else ["-days", str(days)]
    openssl("req", "-x509", *KEY, *until, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", subject,
            "-CA", str(ca / "ca.pem"), "-CAkey", str(ca / "ca.key"),
            *(word for e in extensions for word in ("-addext", e)), cwd=d)
    os.chmod(d / f"{name}.key", 0o400)


def make_server(directory, ca, addr="127.0.0.1", others=()):
    """Writes server.pem and server.key, for loopback, |addr| and the names |others|."""
    try:
        ipaddress.ip_address(addr)
        own = f"IP:{addr}"
    except ValueError:
        own = f"DNS:{addr}"
    names = ",".join(dict.fromkeys(["DNS:localhost", "IP:127.0.0.1", "IP:::1", own, *(f"DNS:{n}" for n in others)]))
    sign(directory, ca, "server", f"/CN={addr}", 8, f"subjectAltName={names}", "basicConstraints=critical,CA:FALSE",
         "extendedKeyUsage=serverAuth")


def make_user(directory, ca, name, days=8):
    """Writes NAME.pem and NAME.key of a user /CN=NAME."""
    sign(directory, ca, name, f"/CN={name}", days, "basicConstraints=critical,CA:FALSE",
         "keyUsage=critical,digitalSignature", "extendedKeyUsage=clientAuth")


def make_proxy(directory, name, days=1):
    """Writes NAME.proxy: what a user's certificate vouches for (RFC 3820), its key, and that certificate."""
    d = pathlib.Path(directory)
    openssl("req", "-x509", *KEY, "-days", str(days), "-keyout", "proxy.key", "-out", "proxy.pem",
            "-subj", f"/CN={name}/CN=1234567", "-CA", f"{name}.pem", "-CAkey", f"{name}.key",
            "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "keyUsage=critical,digitalSignature",
            "-addext", "proxyCertInfo=critical,language:id-ppl-inheritAll", cwd=d)
    parts = [(d / f).read_bytes() for f in ("proxy.pem", "proxy.key", f"{name}.pem")]
    with open(os.open(d / f"{name}.proxy", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as f:
        f.write(b"".join(parts))
    os.remove(d / "proxy.key")
    os.remove(d / "proxy.pem")


def make(directory, addr="127.0.0.1"):
    """A CA that signs one server and is forgotten: ca.pem, server.pem and server.key."""
    make_ca(directory)
    make_server(directory, directory, addr)
    os.remove(pathlib.Path(directory) / "ca.key")
