"""A throw-away CA and a certificate for loopback, made by openssl; for tests and demos only."""
import ipaddress
import os
import pathlib
import subprocess


def openssl(*words, cwd):
    r = subprocess.run(["openssl", *words], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"openssl {words[0]}: {r.stderr.strip()}")


def make(directory, addr="127.0.0.1"):
    """Writes ca.pem, server.pem and server.key, good for 8 days, for loopback and |addr|."""
    try:
        ipaddress.ip_address(addr)
        own = f"IP:{addr}"
    except ValueError:
        own = f"DNS:{addr}"
    names = ",".join(dict.fromkeys(["DNS:localhost", "IP:127.0.0.1", "IP:::1", own]))
    d = pathlib.Path(directory)
    new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "8"]
    openssl(*new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=xhdf5 throw-away CA",
            "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign", cwd=d)
    openssl(*new, "-keyout", "server.key", "-out", "server.pem", "-subj", f"/CN={addr}",
            "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", f"subjectAltName={names}",
            "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth", cwd=d)
    os.remove(d / "ca.key")
    os.chmod(d / "server.key", 0o400)
    os.chmod(d / "ca.pem", 0o644)
