"""Prefix affinity against real prompt caches: two llama.cpp servers with the same model.

TOLLGATE_AFFINITY_MODEL keeps each conversation on one of the servers, TOLLGATE_WEIGHTED_MODEL
spreads its requests over both.
"""

from conftest import required

# More than one server has slots for (four), less than both have.
CONVERSATIONS = 5
TURNS = 20


def cached_share(client, model):
    """Holds conversations in turn, and returns the share of prompt tokens that came from a cache."""
    conversations = [[] for _ in range(CONVERSATIONS)]
    cached = prompt = 0
    for turn in range(TURNS):
        for number, messages in enumerate(conversations):
            text = f"Conversation {number}, turn {turn}: tell me more about all of that, please."
            messages.append({"role": "user", "content": text})
            answer = client.chat.completions.create(
                model=model, messages=messages, temperature=0, max_tokens=16
            )
            text = answer.choices[0].message.content
            messages.append({"role": "assistant", "content": text})
            prompt += answer.usage.prompt_tokens
            cached += answer.usage.prompt_tokens_details.cached_tokens
    return cached / prompt


def test_conversations_stay_where_their_beginning_is_cached(client, capsys):
    spread = cached_share(client, required("TOLLGATE_WEIGHTED_MODEL"))
    affine = cached_share(client, required("TOLLGATE_AFFINITY_MODEL"))
    with capsys.disabled():
        print(f"\ncached prompt tokens: {affine:.0%} with prefix affinity, {spread:.0%} without")
    assert affine > spread
