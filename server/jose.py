"""JSON Web Tokens signed and checked by the openssl command: ES256 and RS256, nothing else.
Sources: RFC 7515 (JWS), 7517 and 7518 (JWK, JWA), 5480 and 8017 (how keys look in DER)."""
import base64
import json
import os
import pathlib
import subprocess
import tempfile

EC_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")    # an EC key on P-256 follows
RSA_OID = bytes.fromhex("300d06092a864886f70d0101010500")


class Bad(ValueError):
    """The token is not what it should be; the text says why, and holds nothing of it."""


def openssl(*words, data=b""):
    r = subprocess.run(["openssl", *words], input=data, capture_output=True)
    return r.stdout if r.returncode == 0 else None


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


# --- DER --------------------------------------------------------------------------------------------

def der(tag, body):
    n = len(body)
    length = bytes([n]) if n < 128 else bytes([0x80 + (n.bit_length() + 7) // 8]) + n.to_bytes((n.bit_length() + 7) // 8)
    return bytes([tag]) + length + body


def der_int(number):
    return der(2, number.to_bytes(number.bit_length() // 8 + 1))


def der_read(data, at=0):
    """(tag, start of the body, its end) of the element at |at|."""
    n, start = data[at + 1], at + 2
    if n >= 128:
        n, start = int.from_bytes(data[start:start + n - 128]), start + n - 128
    return data[at], start, start + n


def der_numbers(data):
    """The integers of a SEQUENCE of integers."""
    _, at, end = der_read(data)
    found = []
    while at < end:
        _, start, at = der_read(data, at)
        found.append(int.from_bytes(data[start:at]))
    return found


# --- keys -------------------------------------------------------------------------------------------

def make_key(path, algorithm):
    kind = ["EC", "-pkeyopt", "ec_paramgen_curve:prime256v1"] if algorithm == "ES256" else \
        ["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]
    made = openssl("genpkey", "-algorithm", *kind)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
        f.write(made)


def public_jwk(path, algorithm):
    """What the issuer publishes of the private key in |path|."""
    spki = openssl("pkey", "-in", str(path), "-pubout", "-outform", "DER")
    jwk = {"kid": algorithm.lower(), "alg": algorithm, "use": "sig"}
    if algorithm == "ES256":
        return jwk | {"kty": "EC", "crv": "P-256", "x": encode(spki[-64:-32]), "y": encode(spki[-32:])}
    modulus, exponent = der_numbers(spki[spki.index(RSA_OID) + len(RSA_OID) + 5:])    # behind the BIT STRING's head
    return jwk | {"kty": "RSA", "n": encode(modulus.to_bytes(256)), "e": encode(exponent.to_bytes(3))}


def pem_of(jwk):
    """The public key of a JWK, as openssl reads it."""
    if jwk.get("kty") == "EC" and jwk.get("crv") == "P-256":
        spki = EC_HEAD + b"\4" + decode(jwk["x"]).rjust(32, b"\0") + decode(jwk["y"]).rjust(32, b"\0")
    elif jwk.get("kty") == "RSA":
        key = der(0x30, b"".join(der_int(int.from_bytes(decode(jwk[k]))) for k in "ne"))
        spki = der(0x30, RSA_OID + der(3, b"\0" + key))
    else:
        raise Bad("its key is neither RSA nor of the curve P-256")
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(spki) + b"-----END PUBLIC KEY-----\n"


# --- tokens -----------------------------------------------------------------------------------------

def sign(claims, key, algorithm):
    head = {"typ": "JWT", "alg": algorithm, "kid": algorithm.lower()}
    text = ".".join(encode(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
    signature = openssl("dgst", "-sha256", "-sign", str(key), data=text.encode())
    if algorithm == "ES256":
        signature = b"".join(n.to_bytes(32) for n in der_numbers(signature))
    return f"{text}.{encode(signature)}"


def split(token):
    """(head, claims, what was signed, signature), believed by nobody yet."""
    try:
        text, _, signature = token.rpartition(".")
        head, claims = (json.loads(decode(part)) for part in text.split("."))
        return dict(head), dict(claims), text.encode(), decode(signature)
    except (ValueError, TypeError) as why:
        raise Bad("it is no JSON Web Token") from why


def check(token, keys):
    """The claims of |token|, whose signature one of |keys| (a list of JWK) has made. Checks no claim."""
    head, claims, text, signature = split(token)
    algorithm = head.get("alg")
    jwk = next((k for k in keys if k.get("kid") == head.get("kid")), None)
    if not jwk or (algorithm, jwk.get("kty")) not in (("ES256", "EC"), ("RS256", "RSA")):
        raise Bad("it was signed with a key that the issuer does not publish")
    if algorithm == "ES256":
        if len(signature) != 64:
            raise Bad("its signature is of no use")
        signature = der(0x30, der_int(int.from_bytes(signature[:32])) + der_int(int.from_bytes(signature[32:])))
    with tempfile.TemporaryDirectory() as d:
        key, signed = pathlib.Path(d, "key"), pathlib.Path(d, "signature")
        key.write_bytes(pem_of(jwk))
        signed.write_bytes(signature)
        if openssl("dgst", "-sha256", "-verify", str(key), "-signature", str(signed), data=text) is None:
            raise Bad("its signature is wrong")
    return claims
