"""Posts requests that are too large to an A2A server, as clients do that write all before they read.

    a2a_oversize.py PORT CA_FILE
"""

import http.client
import json
import ssl
import sys

import requests

BODY = b"7" * (4 * 1024 * 1024)
HEADERS = {"Content-Type": "application/json"}
TRIES = 20


def by_http_client(port, ca):
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=60)
    connection.request("POST", "/a2a/request", BODY, HEADERS)
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())["error_code"]
    connection.close()
    return answer


def by_requests(port, ca):
    url = f"https://localhost:{port}/a2a/request"
    response = requests.post(url, BODY, headers=HEADERS, verify=ca, timeout=60)
    return response.status_code, response.json()["error_code"]


if __name__ == "__main__":
    port, ca = int(sys.argv[1]), sys.argv[2]
    for way in (by_http_client, by_requests):
        for _ in range(TRIES):
            answer = way(port, ca)
            assert answer == (413, "PAYLOAD_TOO_LARGE"), answer
    print("ok")
