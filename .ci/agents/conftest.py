"""Fixtures. The addresses of the running gateway and the agents come from the environment.

A missing variable is a failure, never a skip: CI must not pass by testing less.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent


def required(name):
    value = os.environ.get(name)
    if not value:
        pytest.fail(f"{name} is not set", pytrace=False)
    return value


@pytest.fixture(scope="session")
def base_url():
    return required("TOLLGATE_BASE_URL")


@pytest.fixture(scope="session")
def agents():
    """The directory in which npm installed the agents' commands."""
    return pathlib.Path(required("TOLLGATE_AGENTS"))


@pytest.fixture(scope="session")
def ctl(base_url):
    """Runs `ctl` as the account of the API key."""
    command = required("TOLLGATE_CTL")

    def run(*args):
        done = subprocess.run([command, *args], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def agent_config(ctl, base_url):
    def printed(agent, model):
        return ctl("agent-config", agent, "--base-url", base_url, "--model", model)

    return printed


@pytest.fixture
def records(ctl):
    """Waits for this number of request records of the test, and returns them, oldest first."""

    def everything():
        lines = ctl("request", "list", "--limit", "1000", "-o", "jsonl").splitlines()
        return [json.loads(line) for line in reversed(lines)]

    before = {record["id"] for record in everything()}

    def since(count):
        # records are written asynchronously
        for _ in range(100):
            found = [record for record in everything() if record["id"] not in before]
            if len(found) >= count:
                break
            time.sleep(0.05)
        assert len(found) == count, found
        return found

    return since


@pytest.fixture
def mcp_server():
    return [sys.executable, str(HERE / "mcp_server.py")]


@pytest.fixture
def home(tmp_path):
    """An empty home directory, a git repository in it, and a minimal environment."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    subprocess.run(["git", "init", "--quiet", workspace], check=True)
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "TOLLGATE_API_KEY": required("TOLLGATE_API_KEY"),
        "NO_COLOR": "1",
    }
    return tmp_path, workspace, environment
