"""An OCI image layout from a bare Debian root and openhca's package, without a daemon and without being root.

usage: oci.py ROOT.tar PACKAGE.deb DEST      writes DEST/image (a layout) and DEST/openhca-VERSION-oci.tar (the same)

Two layers: the root without what only apt needs, and the package on top; the second is the same bytes for the same
package. Format: the OCI image specification, version 1.1.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
# What a running image does not look at.
LEFT_OUT = ("dev/", "usr/share/doc/", "usr/share/man/", "usr/share/locale/", "var/cache/", "var/lib/apt/lists/",
            "var/log/")
USER = "1000:1000"


def name_of(member):
    return member.name.removeprefix("./").rstrip("/")


def copy(source, into, keeps, when):
    """Members of one archive into another, by name, and as of one time."""
    members = sorted((member for member in source if keeps(name_of(member))), key=name_of)
    for member in members:
        member.name, member.mtime, member.pax_headers = name_of(member), when, {}
        into.addfile(member, source.extractfile(member) if member.isreg() else None)


def is_wanted(name):
    folder = name + "/"
    return name and (folder in LEFT_OUT or not folder.startswith(LEFT_OUT))


def layer(source, keeps, when):
    """A layer: its bytes compressed, and the digest of those before."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as into:
        copy(source, into, keeps, when)
    return gzip.compress(plain.getvalue(), 6, mtime=0), digest(plain.getvalue())


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """A folder of blobs by digest."""

    def __init__(self, path):
        self.path = path
        shutil.rmtree(path, ignore_errors=True)
        (path / "blobs" / "sha256").mkdir(parents=True)

    def add(self, data, media_type):
        """Stores a blob; what refers to it."""
        found = digest(data)
        (self.path / "blobs" / found.replace(":", "/")).write_bytes(data)
        return {"mediaType": media_type, "digest": found, "size": len(data)}

    def add_json(self, value, media_type):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), media_type)

    def finish(self, manifest, tag):
        manifest["annotations"] = {"org.opencontainers.image.ref.name": tag}
        index = {"schemaVersion": 2, "manifests": [manifest]}
        (self.path / "index.json").write_text(json.dumps(index, sort_keys=True), encoding="utf-8")
        (self.path / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="utf-8")


def package_fields(package):
    text = subprocess.run(["dpkg-deb", "--field", package], check=True, capture_output=True, text=True).stdout
    lines = (line.partition(": ") for line in text.splitlines() if not line.startswith(" "))
    return {key: value for key, _, value in lines}


def package_files(package):
    """The archive in a .deb."""
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    return tarfile.open(fileobj=io.BytesIO(data))


def config(version, when, diffs):
    created = datetime.fromtimestamp(when, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "User": USER,
            "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"],
            "Cmd": ["hca", "help"],
            "WorkingDir": "/tmp",
            "Labels": {
                "org.opencontainers.image.title": "OpenHCA",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": diffs},
        "history": [{"created": created, "created_by": by} for by in ("Debian and its verbs programs", "openhca.deb")],
    }


def main():
    root, package, dest = map(Path, sys.argv[1:])
    version = package_fields(package)["Version"]
    members = package_files(package)
    # The package's files are as old as its commit.
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or max(member.mtime for member in members))
    layout = Layout(dest / "image")
    layers, diffs = [], []
    with tarfile.open(root) as base:
        for source, keeps in ((base, is_wanted), (members, bool)):
            data, diff = layer(source, keeps, when)
            layers.append(layout.add(data, LAYER))
            diffs.append(diff)
    described = layout.add_json(config(version, when, diffs), CONFIG)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers}
    layout.finish(layout.add_json(manifest, MANIFEST), version)
    archive = dest / f"openhca-{version}-oci.tar"
    with tarfile.open(archive, "w") as out:
        for path in sorted(layout.path.rglob("*")):
            member = out.gettarinfo(path, path.relative_to(layout.path))
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            with path.open("rb") if path.is_file() else io.BytesIO() as data:
                out.addfile(member, data)
    sizes = ", ".join(f"{layer['size'] / 1e6:.0f} MB" for layer in layers)
    print(f"dist: {layout.path} and {archive}: layers of {sizes}")


main()
