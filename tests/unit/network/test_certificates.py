"""Certificates are read when a connection needs them, and not before."""

import asyncio
import datetime as dt
import ssl
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.network.certificates import ensure_read, read_later

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one authority of the system: a certificate for localhost, with its key, signed by itself."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "authority.pem"
    file.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    return file


def authorities(context: ssl.SSLContext) -> int:
    return context.cert_store_stats()["x509_ca"]


@pytest.mark.usefixtures("authority")
async def test_contexts_made_meanwhile_wait_and_others_do_not() -> None:
    with read_later():
        early = ssl.create_default_context()
    assert authorities(ssl.create_default_context()) == 1
    assert authorities(early) == 0
    await ensure_read()
    assert authorities(early) == 1
    await ensure_read()
    assert authorities(early) == 1


CLIENT = """
import asyncio, sys
from app.network.certificates import read_later
with read_later():
    import aiohttp
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as usual
from app.core.connections import Purpose, Why
from app.network.connector import Connector

async def main():
    assert usual.cert_store_stats()["x509_ca"] == 0, "they were read when aiohttp was imported"
    async with aiohttp.ClientSession(connector=Connector(Purpose(why=Why.ATTACHED))) as http:
        async with http.get(sys.argv[1]) as reply:
            print(await reply.text())

asyncio.run(main())
"""


async def test_a_connection_over_tls_reads_them_first(authority: Path) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="trusted")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(authority)
    await web.TCPSite(runner, "localhost", 0, ssl_context=tls).start()
    url = f"https://localhost:{runner.addresses[0][1]}/"
    async with aiohttp.ClientSession() as usual:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):  # this process trusts the system's own
            await usual.get(url)
    assert await _said_by_client(url) == "trusted"
    await runner.cleanup()


async def _said_by_client(url: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, url, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().strip()
