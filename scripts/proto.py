"""Generate csi/_pb from proto/csi.proto, or with `--check` tell whether it is fresh."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PROTO = HERE / "proto" / "csi.proto"
OUT = HERE / "csi" / "_pb"


def generate(out: Path) -> None:
    """Run protoc so that the modules import each other as csi._pb.*, and put them into `out`."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        source = root / "csi" / "_pb"
        source.mkdir(parents=True)
        shutil.copy(PROTO, source / "csi.proto")
        plugins = str(Path(sys.executable).parent)
        subprocess.run(
            [
                sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", f"--python_out={root}",
                f"--grpc_python_out={root}", f"--mypy_out=quiet:{root}", f"--mypy_grpc_out=quiet:{root}",
                f"--plugin=protoc-gen-mypy={plugins}/protoc-gen-mypy",
                f"--plugin=protoc-gen-mypy_grpc={plugins}/protoc-gen-mypy_grpc",
                "csi/_pb/csi.proto",
            ],
            check=True,
        )  # fmt: skip
        out.mkdir(parents=True, exist_ok=True)
        for made in source.glob("csi_pb2*"):
            shutil.copy(made, out / made.name)


def digest_is_right() -> bool:
    """Tell whether proto/csi.proto is byte for byte the published one."""
    wanted = (PROTO.parent / "csi.proto.sha256").read_text().split()[0]
    return hashlib.sha256(PROTO.read_bytes()).hexdigest() == wanted


def stale_files(fresh: Path) -> list[str]:
    """Return the generated files whose text in the tree differs from what protoc makes now."""
    names = {path.name for folder in (fresh, OUT) for path in folder.glob("csi_pb2*")}
    return sorted(
        name
        for name in names
        if not (OUT / name).exists()
        or not (fresh / name).exists()
        or (OUT / name).read_bytes() != (fresh / name).read_bytes()
    )


def main() -> int:
    """Generate, or with `--check` compare."""
    if not digest_is_right():
        print("proto/csi.proto is not the published file: its digest differs from proto/csi.proto.sha256")
        return 1
    if "--check" not in sys.argv[1:]:
        generate(OUT)
        return 0
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory))
        stale = stale_files(Path(directory))
    if stale:
        print(f"csi/_pb is stale ({', '.join(stale)}): run `make proto` and commit what it makes")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
