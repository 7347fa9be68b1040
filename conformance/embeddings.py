"""A small real model behind an endpoint as OpenAI has it; prints its address and serves until it is killed."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import wordllama
from wordllama import WordLlama

# The package has its tokenizer in another folder than it looks in.
home = Path(wordllama.__file__).parent
model = WordLlama.load(cache_dir=home, disable_download=True)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(body)
        if self.path != "/v1/embeddings" or not isinstance(asked.get("input"), list):
            self.send_error(404)
            return
        points = model.embed(asked["input"], norm=True)
        data = [
            {"object": "embedding", "index": index, "embedding": [float(value) for value in point]}
            for index, point in enumerate(points)
        ]
        answer = json.dumps({"object": "list", "data": data, "model": asked.get("model", "")}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
server.serve_forever()
