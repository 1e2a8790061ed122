"""Write a tiny llama-architecture GGUF model with random weights.

    make_gguf.py MODEL.gguf

CI needs a real inference engine behind the gateway, not meaningful answers. Generating half a
megabyte avoids a download and a licence, and the fixed seed makes every run serve the same model.
"""

import sys

import gguf
import numpy as np

EMBED, HEADS, FFN, LAYERS = 64, 4, 128, 2
# A token is one character, and tool schemas are part of the prompt, so the
# context must be a few thousand characters long.
CONTEXT = 4096

# In the format of common chat templates, so that llama.cpp recognises the tools.
CHAT_TEMPLATE = """\
{%- for tool in tools %}{{- '<|tool|>' + (tool | tojson) + '\\n' }}{%- endfor %}
{%- for message in messages %}
{{- '<|' + message.role + '|>' + (message.content or '') }}
{%- for call in message.tool_calls %}
{{- '<tool_call>{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments | tojson) + '}</tool_call>' }}
{%- endfor %}
{{- '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}
"""


def vocabulary():
    """SentencePiece-style: special tokens, every byte, printable ASCII."""
    kind = gguf.TokenType
    tokens = [("<unk>", kind.UNKNOWN), ("<s>", kind.CONTROL), ("</s>", kind.CONTROL)]
    # Opens a tool call in CHAT_TEMPLATE. Being one token (number 3), it can be
    # asked for with `logit_bias`, which is how a test makes random weights call
    # a tool: from there on llama.cpp's grammar writes a valid call.
    tokens += [("<tool_call>", kind.USER_DEFINED)]
    # The byte tokens let any UTF-8 prompt be tokenised.
    tokens += [(f"<0x{byte:02X}>", kind.BYTE) for byte in range(256)]
    # SentencePiece spells a space as U+2581.
    tokens += [(chr(c).replace(" ", "\u2581"), kind.NORMAL) for c in range(0x20, 0x7F)]
    return tokens


def main(path):
    rng = np.random.default_rng(1)
    tokens = vocabulary()
    texts, kinds = zip(*tokens, strict=True)

    def weights(rows, columns):
        return rng.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    # Every token except the characters gets logit 0, and about half of the characters
    # score above that: unconstrained output is plain ASCII (never a broken UTF-8
    # sequence, never empty), and its length is the requested one.
    output = weights(len(tokens), EMBED) * 4
    output[[kind != gguf.TokenType.NORMAL for kind in kinds]] = 0

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tollgate-ci-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBED)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(EMBED // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)

    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)

    ones = np.ones(EMBED, dtype=np.float32)
    writer.add_tensor("token_embd.weight", weights(len(tokens), EMBED))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        writer.add_tensor(f"{block}.attn_norm.weight", ones)
        for part in ("q", "k", "v", "output"):
            writer.add_tensor(f"{block}.attn_{part}.weight", weights(EMBED, EMBED))
        writer.add_tensor(f"{block}.ffn_norm.weight", ones)
        writer.add_tensor(f"{block}.ffn_gate.weight", weights(FFN, EMBED))
        writer.add_tensor(f"{block}.ffn_up.weight", weights(FFN, EMBED))
        writer.add_tensor(f"{block}.ffn_down.weight", weights(EMBED, FFN))

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
