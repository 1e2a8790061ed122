"""Serve a GGUF model with llama.cpp's HTTP server, in the foreground.

    serve.py PORT MODEL.gguf [MODEL_ID]

SECOND_UPSTREAM_API_KEY, when set, is the bearer key the server demands.
"""

import os
import signal
import sys

import xllamacpp


def main(port, path, model_id="tiny-random"):
    params = xllamacpp.CommonParams()
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.model.path = path
    params.model_alias = {model_id}
    # The model never ends an answer by itself; this limits requests without
    # max_tokens.
    params.n_predict = 32
    # Four concurrent answers, each with the model's whole context.
    params.n_parallel = 4
    params.n_ctx = 4 * 4096
    # The model is tiny: more threads would only take cores from the gateway.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # The default keeps up to 8 GiB of old prompts in memory.
    params.cache_ram_mib = 0
    params.ui = False
    if key := os.environ.get("SECOND_UPSTREAM_API_KEY"):
        params.api_keys = [key]

    # Block the signals before the server's threads start, so that they inherit
    # the mask and only sigwait below receives them.
    stop = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    server = xllamacpp.Server(params)  # returns once the model is loaded
    print(f"serving {model_id} at {server.listening_address}/v1", flush=True)
    signal.sigwait(stop)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(int(sys.argv[1]), *sys.argv[2:])
