"""What server/serve can start: each kind's program, the users it runs as, and its configuration, filled in."""
import collections
import contextlib
import os
import pathlib
import random
import re
import secrets
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def write_config(template, out, words):
    text = (HERE / template).read_text()
    text = re.sub(r"@([A-Z_]+)@", lambda m: str(words[m[1]]), text)
    out.write_text(text)


def free_port(addr):
    """A port that nobody has now. It lies below those that the kernel gives to whoever asks for any, and to
    connections: else one of these may take it before the server does."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    family = socket.AF_INET6 if ":" in addr else socket.AF_INET
    below = range(lowest // 2, lowest)
    for port in [*random.sample(below, min(100, len(below))), 0]:   # 0: any, where those are not to be had
        with socket.socket(family) as s, contextlib.suppress(OSError):
            s.bind((addr, port))
            return s.getsockname()[1]
    raise OSError(f"no port is free at {addr}")


# Each fills in its configuration and returns (commands, what the state has beside the usual).

def nginx(args, program, run, values):
    command = [program, "-e", f"{run}/error.log", "-p", f"{run}/", "-c", f"{run}/nginx.conf"]
    more = {"log": str(run / "access.log")}
    if args.issuer:
        values["CHECK_PORT"] = free_port("127.0.0.1")
        write_config("nginx-private.conf.in", run / "nginx.conf", values)
        check = [sys.executable, str(HERE / "check_token"), "--issuer", args.issuer, "--ca", values["CA"], "--audience",
                 values["AUDIENCE"], "--base", "/private", "--listen", f"127.0.0.1:{values['CHECK_PORT']}"]
        return [command, [str(word) for word in check]], more
    values |= {"HTTP_PORT": free_port(args.addr), "TOKEN": args.token or secrets.token_urlsafe(24),
               "WRITING": f"        include {run}/nginx-writing.conf;" if args.writable else ""}
    if args.file_cache:
        values["WRITING"] += f"\n        open_file_cache max=1000 inactive=60s; open_file_cache_min_uses {args.file_cache};"
    if args.limit_rate:
        values["WRITING"] += f"\n        limit_rate {args.limit_rate};"
    values["LIMITS"] = ""
    if args.limits:
        write_config("nginx-limits.conf.in", run / "nginx-limits.conf", values | {
            "CONNECTIONS": args.limits[0], "RATE": args.limits[1]})
        values["LIMITS"] = f"    include {run}/nginx-limits.conf;"
    if args.writable:
        write_config("nginx-writing.conf.in", run / "nginx-writing.conf", values)
    write_config("nginx.conf.in", run / "nginx.conf", values)
    return [command], more | {"http": f"http://{values['ADDR']}:{values['HTTP_PORT']}/",
                              "http_port": values["HTTP_PORT"], "token": values["TOKEN"]}


def balancer(args, program, run, values):
    values["NAME"] = "localhost"
    values["SERVERS"] = " ".join(f"server {server} max_fails=0;" for server in args.servers.split(","))
    write_config("nginx-balancer.conf.in", run / "nginx.conf", values)
    return [[program, "-e", f"{run}/error.log", "-p", f"{run}/", "-c", f"{run}/nginx.conf"]], \
        {"log": str(run / "access.log")}


def access(args, run, values):
    """What says who may read, if anything is to."""
    if not args.issuer:
        return values | {"TLSCA": "noverify", "ACCESS": "# Private files: xrootd-access.cfg.in"}
    write_config("xrootd-access.cfg.in", run / "access.cfg", values)
    write_config("scitokens.cfg.in", run / "scitokens.cfg", values)
    write_config("authdb.in", run / "authdb", values)
    (run / "subjects.json").write_text('[{"sub": "alice", "result": "alice"}]\n')
    (run / "grid-mapfile").write_text('"/CN=alice" alice\n')
    return values | {"TLSCA": f"certfile {values['CA']}", "ACCESS": f"continue {run}/access.cfg"}


def xrootd(args, program, run, values):
    values["XROOT_PORT"] = free_port(args.addr)
    values = access(args, run, values)
    if args.limits:
        write_config("xrootd-limits.cfg.in", run / "limits.cfg", values | {
            "CONNECTIONS": args.limits[0], "RATE": args.limits[1]})
        values["ACCESS"] += f"\ncontinue {run}/limits.cfg"
    write_config("xrootd.cfg.in", run / "xrootd.cfg", values)
    log = run / "xrootd.log"
    return [[program, "-c", f"{run}/xrootd.cfg", "-l", str(log)]], \
        {"log": str(log), "xroot": f"{values['ADDR']}:{values['XROOT_PORT']}"}


def cluster(args, program, run, values):
    """A directory and two daemons for each, cmsd first: of the redirector, then of the data servers."""
    values |= access(args, run, values) | {"CMSD_PORT": free_port(args.addr)}
    commands, urls = [], []
    for number, root in enumerate([run, *(pathlib.Path(d).resolve() for d in args.root)]):
        name = f"server{number}" if number else "manager"
        port = free_port(args.addr) if number else values["PORT"]
        (run / name).mkdir()
        own = values | {"ROOT": root, "PORT": port}
        write_config("xrootd-cluster.cfg.in", run / f"{name}.cfg", own)
        for daemon in (program.removesuffix("xrootd") + "cmsd", program):
            commands.append([daemon, "-n", name, "-c", f"{run}/{name}.cfg", "-l", f"{os.path.basename(daemon)}.log"])
        if number:
            urls.append(f"https://{values['ADDR']}:{port}/")
    return commands, {"log": str(run / "*" / "xrootd.log"), "servers": urls}


def passwords(run, token):
    """A file of names and hashed passwords: the user reader, whose password is the token."""
    hashed = subprocess.run(["openssl", "passwd", "-apr1", "-stdin"], input=token, capture_output=True, text=True,
                            check=True).stdout
    (run / "passwords").write_text(f"reader:{hashed}")


def apache(args, program, run, values):
    token = args.token or secrets.token_urlsafe(24)
    values |= {"TOKEN": token, "MODULES": "/usr/lib/apache2/modules",
               "WRITING": f"Include {run}/apache-writing.conf" if args.writable else ""}
    if args.writable:
        write_config("apache-writing.conf.in", run / "apache-writing.conf", values)
    write_config("apache.conf.in", run / "apache.conf", values)
    passwords(run, token)
    return [[program, "-D", "FOREGROUND", "-f", f"{run}/apache.conf"]], {"log": str(run / "access.log"), "token": token}


def lighttpd(args, program, run, values):
    token = args.token or secrets.token_urlsafe(24)
    write_config("lighttpd.conf.in", run / "lighttpd.conf", values)
    passwords(run, token)
    return [[program, "-D", "-f", f"{run}/lighttpd.conf"]], {"log": str(run / "access.log"), "token": token}


def origin(args, run, values):
    """Of what stands before another server."""
    host, _, port = args.origin.rpartition(":")
    (run / "cache").mkdir()
    return values | {"NAME": "localhost", "ORIGIN": args.origin, "ORIGIN_HOST": host, "ORIGIN_PORT": port,
                     "FRESH": args.fresh, "FRESH_PERCENT": 0 if args.fresh == "0s" else 20,
                     "CACHE_SIZE": "10g", "CACHE_MB": 10000,
                     "EPOCH": args.epoch}


def nginx_cache(args, program, run, values):
    write_config("nginx-cache.conf.in", run / "nginx.conf", origin(args, run, values))
    return [[program, "-e", f"{run}/error.log", "-p", f"{run}/", "-c", f"{run}/nginx.conf"]], \
        {"log": str(run / "access.log")}


def squid_cache(args, program, run, values):
    write_config("squid-cache.conf.in", run / "squid.conf", origin(args, run, values))
    # First it makes its directories.
    both = 'program=$1; shift; "$program" "$@" -z && exec "$program" "$@"'
    return [["sh", "-c", both, "sh", program, "-N", "-f", f"{run}/squid.conf"]], {"log": str(run / "access.log")}


def squid_proxy(args, program, run, values):
    token = args.token or secrets.token_urlsafe(24)
    passwords(run, token)
    write_config("squid-proxy.conf.in", run / "squid.conf", values | {"NAME": "localhost", "PORTS": args.ports})
    return [[program, "-N", "-f", f"{run}/squid.conf"]], {"log": str(run / "access.log"), "token": token}


def xcache(args, program, run, values):
    write_config("xcache.cfg.in", run / "xrootd.cfg", origin(args, run, values))
    log = run / "xrootd.log"
    return [[program, "-c", f"{run}/xrootd.cfg", "-l", str(log)]], {"log": str(log)}


# |programs|: names of the first one that is here; |users|: that it may run as, the first one that is here; |log|: how
# `requests` reads its log, by lines, which may come late, or, of XRootD, by its trace; |needs|: the argument that says
# what it serves.
Kind = collections.namedtuple("Kind", "programs users configure log needs", defaults=["root"])
WEB = ("www-data", "nginx", "nobody")
SQUID = ("proxy", "squid", "nobody")
XROOTD = ("xrootd", "nobody")
KINDS = {"nginx": Kind(("nginx",), WEB, nginx, "lines"),
         "balancer": Kind(("nginx",), WEB, balancer, "lines", "servers"),
         "apache": Kind(("apache2", "httpd"), WEB, apache, "lines"),
         "lighttpd": Kind(("lighttpd",), WEB, lighttpd, "late lines"),
         "nginx-cache": Kind(("nginx",), WEB, nginx_cache, "lines", "origin"),
         "squid-cache": Kind(("squid", "squid-openssl"), SQUID, squid_cache, "lines", "origin"),
         "squid-proxy": Kind(("squid", "squid-openssl"), SQUID, squid_proxy, "lines", "ports"),
         "xcache": Kind(("xrootd",), XROOTD, xcache, "trace", "origin"),
         "xrootd": Kind(("xrootd",), XROOTD, xrootd, "trace"),
         "cluster": Kind(("xrootd",), XROOTD, cluster, "trace")}
