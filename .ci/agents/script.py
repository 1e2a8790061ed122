"""Prompts with directives for the simulator."""

import json
import uuid


def calls(*tools):
    """Returns a prompt for parallel calls of these tools: pairs of a name and arguments."""
    parts = [f"tool={name} args='{json.dumps(arguments)}'" for name, arguments in tools]
    text = f"[sim {' '.join(parts)}] Do it."
    assert text.count("'") == 2 * len(tools), "an argument contains a quote"
    return text


def broken_once(fault, text):
    """Returns a prompt whose first answer breaks with `fault`. Later answers are `text`."""
    # a unique message: the simulator counts the requests with the same message
    return f"[sim say='{text}' {fault} times=1] Go on, {uuid.uuid4()}."
