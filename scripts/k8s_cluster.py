"""A real control plane on loopback for `make test-k8s`: etcd, kube-apiserver, kube-controller-manager.

    python -m scripts.k8s_cluster BINARIES -- COMMAND ...

BINARIES is a folder with the three programs. Starts them in a temporary folder, waits until the API server is ready,
and runs COMMAND with `HOLDFAST_KUBECONFIG`, whose contexts are `admin` and `viewer` (a user who may list pods in the
namespace `default`, and nothing else). There is no kubelet: what a kubelet would write, the test writes through the
status subresource.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx2
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

READY_SECONDS: Final = 180.0
TOKENS: Final = {"admin": "the-admin-token,admin,1,system:masters", "viewer": "the-viewer-token,viewer,2,"}
_PEM: Final = serialization.Encoding.PEM


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_certificates(folder: Path) -> None:
    """Write an authority (`ca.pem`), a certificate for the server, and a key for service accounts."""
    now = datetime.now(UTC)

    def signed(name: str, key: rsa.RSAPrivateKey, by: str, signer: rsa.RSAPrivateKey, *, authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, by)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if not authority:
            names = [x509.DNSName("kubernetes.default.svc"), x509.IPAddress(ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(signer, hashes.SHA256()).public_bytes(_PEM)

    keys = {name: rsa.generate_private_key(65537, 2048) for name in ("ca", "server", "accounts")}
    for name, key in keys.items():
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / f"{name}.key").write_bytes(private)
    (folder / "ca.pem").write_bytes(signed("test-ca", keys["ca"], "test-ca", keys["ca"], authority=True))
    (folder / "server.pem").write_bytes(signed("server", keys["server"], "test-ca", keys["ca"], authority=False))


def write_kubeconfig(folder: Path, port: int) -> Path:
    """Write the kubeconfig. JSON is YAML."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin",
        "clusters": [
            {"name": "real", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.pem"}}
        ],
        "users": [{"name": name, "user": {"token": line.split(",")[0]}} for name, line in TOKENS.items()],
        "contexts": [{"name": name, "context": {"cluster": "real", "user": name}} for name in TOKENS],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


@contextmanager
def started(folder: Path, *argv: str) -> Generator[subprocess.Popen[bytes]]:
    """Run a program until the end of the block; its output goes to a file."""
    with (folder / f"{Path(argv[0]).name}.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(port: int, folder: Path, process: subprocess.Popen[bytes]) -> str:
    """Wait for the API server; return its version."""
    trusted = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    end = time.monotonic() + READY_SECONDS
    headers = {"Authorization": "Bearer the-admin-token"}
    with httpx2.Client(verify=trusted, trust_env=False, headers=headers, timeout=10) as client:
        while time.monotonic() < end and process.poll() is None:
            try:
                if client.get(f"https://127.0.0.1:{port}/readyz").status_code == 200:
                    return client.get(f"https://127.0.0.1:{port}/version").json()["gitVersion"]
            except httpx2.HTTPError:
                pass
            time.sleep(0.5)
    log = (folder / "kube-apiserver.log").read_text(errors="replace")
    raise SystemExit(f"The API server did not become ready:\n{log[-3000:]}")


def main() -> int:
    binaries, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        raise SystemExit(__doc__)
    programs = {name: str(Path(binaries, name)) for name in ("etcd", "kube-apiserver", "kube-controller-manager")}
    with TemporaryDirectory(prefix="holdfast-k8s-") as name, ExitStack() as parts:
        folder = Path(name)
        write_certificates(folder)
        (folder / "tokens.csv").write_text("\n".join(TOKENS.values()) + "\n")
        clients, peers, port = free_port(), free_port(), free_port()
        store = f"http://127.0.0.1:{clients}"
        etcd = [
            programs["etcd"],
            f"--data-dir={folder}/etcd",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
        ]
        server = [
            programs["kube-apiserver"],
            f"--etcd-servers={store}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--tls-cert-file={folder}/server.pem",
            f"--tls-private-key-file={folder}/server.key",
            f"--client-ca-file={folder}/ca.pem",
            f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/accounts.key",
            f"--service-account-signing-key-file={folder}/accounts.key",
            "--disable-admission-plugins=ServiceAccount",
        ]
        parts.enter_context(started(folder, *etcd))
        process = parts.enter_context(started(folder, *server))
        path = write_kubeconfig(folder, port)
        version = wait_until_ready(port, folder, process)
        controllers = [
            programs["kube-controller-manager"],
            f"--kubeconfig={path}",
            "--leader-elect=false",
            "--controllers=deployment,replicaset,namespace",
            "--port=0",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder}/certificates",
        ]
        parts.enter_context(started(folder, *controllers))
        print(f"Kubernetes {version} is ready on 127.0.0.1:{port}.", flush=True)
        return subprocess.run(command, env={**os.environ, "HOLDFAST_KUBECONFIG": str(path)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
