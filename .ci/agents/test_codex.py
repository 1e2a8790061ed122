"""Tests of the real Codex with the configuration that `ctl agent-config codex` prints, against the
gateway and its simulator."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from script import broken_once, calls

MODEL = "sim-chat"
# With this model, Codex declares apply_patch as a custom tool with a grammar, and tool_search.
CODEX_MODEL = "gpt-5.5"
# An alias of CODEX_MODEL. Codex declares its tools in the input, and runs code that calls them.
LITE_MODEL = "gpt-6-sol"


@pytest.fixture
def codex(agents, agent_config, home):
    """Runs turns of one user. `configure` changes the configuration before the first turn."""
    root, workspace, environment = home
    config = root / ".codex" / "config.toml"
    config.parent.mkdir()

    def configure(model=MODEL, change=lambda text: text):
        config.write_text(change(agent_config("codex", model)))

    def run(prompt, *session):
        command = [agents / "codex", "exec", *session, "--json", "--strict-config"]
        command += ["--dangerously-bypass-approvals-and-sandbox", prompt]
        done = subprocess.run(
            command,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        items = [event["item"] for event in events if event["type"] == "item.completed"]
        return SimpleNamespace(
            done=done,
            events=events,
            errors=[event for event in events if event["type"] in ("error", "turn.failed")],
            of=lambda kind: [item for item in items if item["type"] == kind],
            text="".join(item["text"] for item in items if item["type"] == "agent_message"),
            usage=next((e["usage"] for e in events if e["type"] == "turn.completed"), None),
            thread=next(e["thread_id"] for e in events if e["type"] == "thread.started"),
        )

    configure()
    return SimpleNamespace(run=run, configure=configure, workspace=workspace)


def check(turn):
    assert turn.done.returncode == 0, turn.done
    assert not turn.errors, turn.errors
    assert turn.usage["input_tokens"] > 0 and turn.usage["output_tokens"] > 0
    return turn


def test_shell_turn(codex, records):
    turn = check(codex.run(calls(("exec_command", {"cmd": "echo written > file; cat file"}))))
    [command] = turn.of("command_execution")
    assert (command["exit_code"], command["aggregated_output"]) == (0, "written\n")
    assert "written" in turn.text
    assert (codex.workspace / "file").read_text() == "written\n"
    assert [(it["endpoint"], it["status"]) for it in records(2)] == [("responses", "completed")] * 2


def test_parallel_calls(codex):
    commands = ["echo first", "echo second", "echo third"]
    turn = check(codex.run(calls(*(("exec_command", {"cmd": cmd}) for cmd in commands))))
    outputs = [item["aggregated_output"] for item in turn.of("command_execution")]
    assert sorted(outputs) == ["first\n", "second\n", "third\n"]
    # it returns the results in the order of the calls
    assert all(f"{word}\\n" in json.dumps(turn.text) for word in ("first", "second", "third"))


def test_session_is_resumed(codex):
    first = check(codex.run(calls(("exec_command", {"cmd": "echo remembered"}))))
    second = check(codex.run("And now? [sim say=again]", "resume", first.thread))
    assert second.thread == first.thread
    assert second.text == "again"
    third = check(codex.run(calls(("exec_command", {"cmd": "echo more"})), "resume", "--last"))
    assert third.thread == first.thread
    assert "more" in third.text
    # the request contains the whole conversation
    assert third.usage["input_tokens"] > second.usage["input_tokens"]


def test_mcp_tools_in_a_namespace(codex, mcp_server):
    def with_server(text):
        command, *args = (json.dumps(part) for part in mcp_server)
        server = f"[mcp_servers.tiny]\ncommand = {command}\nargs = [{', '.join(args)}]\n"
        return f"{text}\n{server}"

    codex.configure(change=with_server)
    turn = check(codex.run(calls(("mcp__tiny__add", {"a": 19, "b": 23}))))
    [call] = turn.of("mcp_tool_call")
    assert (call["server"], call["tool"], call["status"]) == ("tiny", "add", "completed")
    assert "the sum is 42" in json.dumps(call["result"])
    assert "the sum is 42" in turn.text


def test_sub_agents_in_a_namespace(codex):
    turn = check(codex.run(calls(("multi_agent_v1__close_agent", {"target": "nobody"}))))
    # the tool is found and run; its result reports that no such agent exists
    assert "unsupported call" not in turn.text
    assert "given the tool results" in turn.text


def test_custom_tool(codex):
    codex.configure(CODEX_MODEL)
    patch = "*** Begin Patch\n*** Add File: new.txt\n+added by a patch\n*** End Patch\n"
    turn = check(codex.run(calls(("apply_patch", {"input": patch}))))
    [change] = turn.of("file_change")
    assert change["status"] == "completed"
    assert (codex.workspace / "new.txt").read_text() == "added by a patch\n"


def test_tools_declared_in_the_input(codex):
    codex.configure(LITE_MODEL)
    code = """text(await tools.exec_command({cmd: "echo written > file; cat file"}))"""
    turn = check(codex.run(calls(("functions__exec", {"input": code}))))
    assert "Script completed" in turn.text
    assert (codex.workspace / "file").read_text() == "written\n"


@pytest.mark.parametrize("fault", ["cut=5", "error=5", "status=503"])
def test_broken_answer_is_retried(codex, records, fault):
    turn = codex.run(broken_once(fault, "one two three four five six"))
    assert turn.done.returncode == 0, turn.done
    # it also shows the text before the break
    assert turn.of("agent_message")[-1]["text"] == "one two three four five six"
    assert [it["status"] for it in records(2)] == ["failed", "completed"]


def test_default_configuration_is_refused_with_the_setting_to_change(codex, records):
    """Web search is enabled by default. The upstream is not called, and the refusal is recorded."""
    without = lambda text: text.replace('web_search = "disabled"\n', "")  # noqa: E731
    codex.configure(change=without)
    turn = codex.run("Hello!")
    assert turn.done.returncode != 0
    [failed] = [event for event in turn.errors if event["type"] == "turn.failed"]
    error = json.loads(failed["error"]["message"])["error"]
    assert (error["code"], error["param"]) == ("unsupported_tools", "tools[8]")
    assert 'web_search = "disabled"' in error["message"]
    [record] = records(1)
    assert (record["http_status"], record["error_code"]) == (400, "unsupported_tools")
    assert record["input_tokens"] is None


def test_catalogue_of_the_gateway(codex):
    """With `model_catalog_url`, Codex knows the model and prints no warning."""
    codex.configure(change=lambda text: text.replace("# model_catalog_url", "model_catalog_url"))
    turn = check(codex.run(calls(("exec_command", {"cmd": "echo known"}))))
    assert not turn.of("error")
    assert "known" in turn.text
    assert "failed to refresh" not in turn.done.stderr
