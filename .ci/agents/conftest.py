"""What a test needs to know of the running gateway and of the agents comes from the environment.

A variable that is missing is a failure, never a skip: CI must not turn green
by testing less.
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
    """Where npm has put the agents' commands."""
    return pathlib.Path(required("TOLLGATE_AGENTS"))


@pytest.fixture(scope="session")
def ctl(base_url):
    """Runs `ctl` as the account that the key belongs to."""
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
    """Returns the request records of this test, oldest first, once there are so many."""

    def everything():
        lines = ctl("request", "list", "--limit", "1000", "-o", "jsonl").splitlines()
        return [json.loads(line) for line in reversed(lines)]

    before = {record["id"] for record in everything()}

    def since(count):
        # they are written behind the requests
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
    """A home directory and a repository to work in, with nothing of the user's."""
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
