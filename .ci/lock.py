"""Write the versions that `.ci/run` installs, with their licences: those of the environment that this runs in.

make lock
"""

import importlib.metadata
import pathlib

HEAD = """\
# Versions that .ci/run installs; written by `make lock`, from an environment in which `make test` passed.
# Behind each: its licence, as the package states it.
"""
OURS = ("stickslip", "pip", "setuptools")


def main() -> None:
    found = {}
    for package in importlib.metadata.distributions():
        name = package.metadata["Name"]
        if name.lower() not in OURS:
            found[name.lower()] = f"{name}=={package.version.partition('+')[0]}  # {licence(package.metadata)}"
    out = pathlib.Path(__file__).with_name("constraints.txt")
    out.write_text(HEAD + "".join(f"{found[name]}\n" for name in sorted(found)))
    print(f"{len(found)} packages in {out}")


def licence(metadata: "importlib.metadata.PackageMetadata") -> str:
    """In one line: the expression, or classifiers, or what stands in its place if that is short."""
    classified = [one.split("::")[-1].strip() for one in metadata.get_all("Classifier") or () if "License ::" in one]
    free = (metadata.get("License") or "").strip()
    short = free if free and "\n" not in free and len(free) < 60 else ""
    return metadata.get("License-Expression") or "; ".join(classified) or short or "see the package"


if __name__ == "__main__":
    main()
