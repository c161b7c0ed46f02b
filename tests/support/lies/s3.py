"""What S3 answers that is neither the object nor a plain refusal. Buckets lie in eu-west-1."""
import email.utils
import json
import re
import time

from .reply import Reply, fault, honest_reply

HOME = "eu-west-1"


def signed_for(r):
    """(key, region) of the request's signature, or None."""
    found = re.search(r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d+/([^/]+)/s3/", r.headers["Authorization"] or "")
    return found and found.groups()


def region_of(r):
    """The region that the request is for: its signature's, or its host's at Amazon."""
    host = re.search(r"s3[.-]([a-z]+-[a-z]+-\d)\.amazonaws", r.headers["Host"])
    signed = signed_for(r)
    return signed[1] if signed else host[1] if host else "us-east-1" if "amazonaws" in r.headers["Host"] else HOME


def refuse(r, status, code, more="", **headers):
    r.send(Reply(status, f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>so it is'
                         f'</Message>{more}</Error>'.encode(), Content_Type="application/xml", **headers))


@fault("s3-301", whole=True)
def moved(r):
    """301 without a Location, but the bucket's region, unless it is asked in that."""
    if region_of(r) == HOME:
        honest_reply(r)
    else:
        refuse(r, 301, "PermanentRedirect", x_amz_bucket_region=HOME)


@fault("s3-307", whole=True)
def sent_on(r):
    """307 to the bucket's host in its region, from others."""
    host = r.headers["Host"]
    if region_of(r) == HOME:
        honest_reply(r)
    else:
        refuse(r, 307, "TemporaryRedirect", Location=f"https://{host.split('.')[0]}.s3.{HOME}.amazonaws.com{r.path}")


@fault("s3-400", whole=True)
def malformed(r):
    """400 that names the region, unless it is signed for that."""
    if signed_for(r) and signed_for(r)[1] == HOME:
        honest_reply(r)
    else:
        refuse(r, 400, "AuthorizationHeaderMalformed", f"<Region>{HOME}</Region>")


@fault("s3-regions", whole=True)
def regions(r):
    """301 to another region each time."""
    refuse(r, 301, "PermanentRedirect", x_amz_bucket_region=f"eu-west-{r.n % 2 + 2}")


@fault("s3-forged", whole=True)
def forged(r):
    """301 to a region that would make a host of the thief's."""
    refuse(r, 301, "PermanentRedirect", "<Region>x.evil.org/</Region>", x_amz_bucket_region="x.evil.org/")


@fault("s3-thief")
def thief(r):
    """307 to a host that is not Amazon's."""
    refuse(r, 307, "TemporaryRedirect", Location="https://evil.org/ok/x.h5")


@fault("s3-slow", whole=True)
def slow(r):
    """503 SlowDown three times after the first request, without Retry-After."""
    if 2 <= r.n <= 4:
        refuse(r, 503, "SlowDown")
    else:
        honest_reply(r)


@fault("s3-skew")
def skew(r):
    """403: the clocks are an hour apart."""
    r.date_time_string = lambda: email.utils.formatdate(time.time() + 3600, usegmt=True)
    refuse(r, 403, "RequestTimeTooSkewed", "<ServerTime>2030-01-01T00:00:00Z</ServerTime>")


@fault("s3-expired", whole=True)
def expired(r):
    """400 ExpiredToken, unless the session token is `new`."""
    if r.headers["x-amz-security-token"] == "new":
        honest_reply(r)
    else:
        refuse(r, 400, "ExpiredToken")


@fault("s3-expires", "s3-lasts", whole=True)
def expires(r):
    """The session token `old` is good for two requests, then `new`; nobody reads without. -lasts: for 99."""
    token = r.headers["x-amz-security-token"]
    if token == "new" or (token == "old" and r.n <= (99 if r.path.startswith("/s3-lasts") else 2)):
        honest_reply(r)
    elif token:
        refuse(r, 400, "ExpiredToken")
    else:
        refuse(r, 403, "AccessDenied")


@fault("s3-key", "s3-private", whole=True)
def key(r):
    """403 InvalidAccessKeyId to who signs; others may read. -private: they may not."""
    if signed_for(r):
        refuse(r, 403, "InvalidAccessKeyId")
    elif r.path.startswith("/s3-key"):
        honest_reply(r)
    else:
        refuse(r, 403, "AccessDenied")


@fault("s3-echo")
def echo(r):
    """403 whose text is all that was sent."""
    sent = "".join(f"{k}: {v}\n" for k, v in r.headers.items())
    refuse(r, 403, "SignatureDoesNotMatch", f"<StringToSign>{sent}</StringToSign>", x_amz_echo=sent.replace("\n", " "))


@fault("s3-lists")
def lists(r):
    """403 AccessDenied for what does not end in .h5, as of one who may not list the bucket."""
    if r.path.endswith(".h5"):
        honest_reply(r)
    else:
        refuse(r, 403, "AccessDenied")


@fault("s3-ranges")
def ranges(r):
    """All of the object to several ranges."""
    if r.ranges and len(r.ranges) > 1:
        r.ranges = None
    honest_reply(r)


def told(keys, ends):
    return json.dumps({"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": keys, "Token": "new",
                       "SecretAccessKey": "secret-of-metadata", "Expiration": ends}).encode()


@fault("metadata")
def metadata(r):
    """A cloud machine's metadata service, version 2: a token by PUT, then its role, then keys. /container: a
    container's, for who shows its token."""
    path, asks = r.path.partition("?")[0].removeprefix("/metadata"), r.headers["X-aws-ec2-metadata-token"]
    role = "/latest/meta-data/iam/security-credentials/"
    if path == "/container":
        right = r.headers["Authorization"] == "Bearer token-of-the-container"
        return r.send(Reply(200, told("AKIDOFACONTAINER", "2099-01-01T00:00:00Z")) if right else Reply(401))
    if path == "/latest/api/token" and r.command == "PUT" and r.headers["X-aws-ec2-metadata-token-ttl-seconds"]:
        return r.send(Reply(200, b"token-of-the-machine=="))
    if r.command != "GET" or asks != "token-of-the-machine==":
        return r.send(Reply(401))
    if path == role:
        return r.send(Reply(200, b"a.role-of@us\n"))
    return r.send(Reply(200, told("AKIDOFAMACHINE", "2099-01-01T00:00:00Z")) if path == role + "a.role-of@us" else
                  Reply(404))


@fault("metadata-none", "metadata-hostile", "metadata-away", "metadata-page")
def no_metadata(r):
    """What is no such service: 404 to PUT; a role that leads elsewhere; a redirect; a page in place of keys."""
    if r.path.startswith("/metadata-none") or (r.command == "GET" and not r.headers["X-aws-ec2-metadata-token"]):
        return r.send(Reply(404))
    if r.path.startswith("/metadata-away"):
        return r.send(Reply(307, Location="/metadata" + r.path.removeprefix("/metadata-away")))
    if r.command == "PUT":
        return r.send(Reply(200, b"token"))
    return r.send(Reply(200, b"../../x" if r.path.startswith("/metadata-hostile") else
                        b"role" if r.path.endswith("/") else b"<html>"))


@fault("s3-machine", "s3-container")
def of_metadata(r):
    """For the key of a metadata service alone."""
    key_ = signed_for(r)
    want = "AKIDOFAMACHINE" if r.path.startswith("/s3-machine") else "AKIDOFACONTAINER"
    if key_ and key_[0] == want and r.headers["x-amz-security-token"] == "new":
        honest_reply(r)
    else:
        refuse(r, 403, "AccessDenied")
