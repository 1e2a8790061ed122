"""Prompts that tell the simulator what to do."""

import json
import uuid


def calls(*tools):
    """Has it call these tools at once: pairs of a name and arguments."""
    parts = [f"tool={name} args='{json.dumps(arguments)}'" for name, arguments in tools]
    text = f"[sim {' '.join(parts)}] Do it."
    assert text.count("'") == 2 * len(tools), "an argument has a quote in it"
    return text


def broken_once(fault, text):
    """Has it break its answer the first time, and answer `text` after that."""
    # a message that was never sent before: the simulator counts how often it comes
    return f"[sim say='{text}' {fault} times=1] Go on, {uuid.uuid4()}."
