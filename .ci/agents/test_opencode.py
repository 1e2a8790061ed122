"""Tests of the real opencode with the configuration that `ctl agent-config opencode` prints, against the
gateway and its simulator."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from script import broken_once, calls

MODEL = "sim-chat"


@pytest.fixture
def opencode(agents, agent_config, home):
    root, workspace, environment = home
    config = root / ".config" / "opencode" / "opencode.json"
    config.parent.mkdir(parents=True)
    # no updates or downloads during a test
    environment |= {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }

    def configure(change=lambda config: config):
        printed = json.loads(agent_config("opencode", MODEL))
        config.write_text(json.dumps(change(printed)))

    def run(prompt, *session):
        # through stdin: opencode adds quotes to an argument with spaces
        done = subprocess.run(
            [agents / "opencode", "run", "--format", "json", *session],
            cwd=workspace,
            env=environment,
            input=prompt,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, done
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert not [event for event in events if event["type"] == "error"], done
        parts = [event["part"] for event in events if "part" in event]
        return SimpleNamespace(
            done=done,
            tools=[part for part in parts if part["type"] == "tool"],
            text="".join(part["text"] for part in parts if part["type"] == "text"),
        )

    configure()
    return SimpleNamespace(run=run, configure=configure, workspace=workspace)


def bash(command):
    return "bash", {"command": command, "description": "runs a command"}


def test_tool_turn(opencode, records):
    turn = opencode.run(calls(bash("echo written > file; cat file")))
    [tool] = turn.tools
    assert (tool["tool"], tool["state"]["status"]) == ("bash", "completed")
    assert tool["state"]["output"].strip() == "written"
    assert "written" in turn.text
    assert (opencode.workspace / "file").read_text() == "written\n"
    # two for the turn, and one for the title of the session
    assert {(it["endpoint"], it["status"]) for it in records(3)} == {("responses", "completed")}


def test_parallel_calls(opencode):
    turn = opencode.run(calls(bash("echo first"), bash("echo second")))
    assert sorted(it["state"]["output"].strip() for it in turn.tools) == ["first", "second"]
    assert turn.text.index("first") < turn.text.index("second")


def test_session_is_continued(opencode):
    opencode.run(calls(bash("echo remembered")))
    assert opencode.run("And now? [sim say=again]", "--continue").text == "again"


def test_mcp_tools(opencode, mcp_server):
    server = {"tiny": {"type": "local", "command": mcp_server, "enabled": True}}
    opencode.configure(lambda config: config | {"mcp": server})
    turn = opencode.run(calls(("tiny_add", {"a": 19, "b": 23})))
    [tool] = turn.tools
    assert (tool["tool"], tool["state"]["status"]) == ("tiny_add", "completed")
    assert "the sum is 42" in turn.text


@pytest.mark.parametrize("fault", ["cut=5", "status=503"])
def test_broken_answer_is_retried(opencode, fault):
    turn = opencode.run(broken_once(fault, "one two three four five six"))
    assert turn.text.endswith("one two three four five six")
