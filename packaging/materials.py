#!/usr/bin/env python3
"""Prints what the programs are made of, read from Cargo's metadata and the sources of the crates.

`sbom` prints a bill of materials in CycloneDX's JSON; `notices` prints the licences of all crates of others, with the
texts that they ship. Crates that only run at build time are in neither. Needs the sources, which each build fetches.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

PROGRAMS = ("gateway", "ctl", "tui")
NOTICE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
TEXT_SUFFIXES = ("", ".md", ".txt")


def linked_packages() -> tuple[dict, dict]:
    """Returns the packages that are linked into the programs and the ids that each one links, by package id."""
    programs = [f"--package={program}" for program in PROGRAMS]
    # the metadata also has optional dependencies that are not enabled
    tree = cargo("tree", *programs, "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}")
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = json.loads(cargo("metadata", "--format-version=1"))
    packages = {
        package["id"]: package
        for package in sorted(metadata["packages"], key=name)
        if (package["name"], f"v{package['version']}") in linked
    }
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    links = {
        id: [
            dependency["pkg"] for dependency in nodes[id]
            if dependency["pkg"] in packages and any(kind["kind"] is None for kind in dependency["dep_kinds"])
        ]
        for id in packages
    }
    return packages, links


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments, "--locked"], check=True, capture_output=True, text=True).stdout


def name(package: dict) -> str:
    return f"{package['name']} {package['version']}"


def licence(package: dict) -> str | None:
    """Returns the SPDX expression. In old manifests, a slash means a choice."""
    return package["license"] and re.sub(r"\s*/\s*", " OR ", package["license"])


def sbom() -> str:
    packages, links = linked_packages()
    root = pathlib.Path(__file__).resolve().parent.parent
    lock = tomllib.loads((root / "Cargo.lock").read_text())
    checksums = {name(package): package.get("checksum") for package in lock["package"]}

    def reference(package: dict) -> str:
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package: dict) -> dict:
        checksum = checksums[name(package)]
        fields = {
            "type": "application" if package["name"] in PROGRAMS else "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "description": package["description"],
            "licenses": licence(package) and [{"expression": licence(package)}],
            "hashes": checksum and [{"alg": "SHA-256", "content": checksum}],
            # a crate of the workspace is in no registry
            "purl": package["source"] and reference(package),
        }
        return {key: value for key, value in fields.items() if value}

    version = next(package["version"] for package in packages.values() if package["name"] == PROGRAMS[0])
    tollgate = {"type": "application", "bom-ref": "tollgate", "name": "tollgate", "version": version}
    programs = [reference(package) for package in packages.values() if package["name"] in PROGRAMS]
    graph = [{"ref": "tollgate", "dependsOn": programs}] + [
        {"ref": reference(packages[id]), "dependsOn": sorted(reference(packages[it]) for it in links[id])}
        for id in packages
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": tollgate},
        "components": [component(package) for package in packages.values()],
        "dependencies": graph,
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


def notices() -> str:
    packages = [package for package in linked_packages()[0].values() if package["source"]]
    table, texts = [], {}
    for package in packages:
        directory = pathlib.Path(package["manifest_path"]).parent
        files = [
            file for file in sorted(directory.rglob("*"))
            if NOTICE.match(file.name) and file.suffix in TEXT_SUFFIXES and file.is_file()
        ]
        if not files and not licence(package):
            sys.exit(f"{name(package)} has no licence")
        missing = "" if files else ", without a text"
        table.append(f"{name(package)}: {licence(package) or 'see its text'}{missing}")
        for file in files:
            text = file.read_text(errors="replace").strip()
            # copies of a text differ in their line breaks
            users = texts.setdefault(" ".join(text.split()), (text, []))[1]
            users.append(f"{name(package)}, {file.relative_to(directory)}")
    parts = ["The programs contain these crates:\n\n" + "\n".join(table)]
    parts += ["\n".join(users) + ":\n\n" + text for text, users in texts.values() if text]
    return f"\n\n{'-' * 80}\n\n".join(parts)


if __name__ == "__main__":
    print({"sbom": sbom, "notices": notices}[sys.argv[1]]())
