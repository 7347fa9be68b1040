"""Posts a body that is refused before it is read, as clients do that write all before they read.

    oversize.py TRIES BYTES STATUS WORD URL [CA_FILE]

Each response has the status, and a text with the word.
"""

import http.client
import ssl
import sys
from urllib.parse import urlsplit

import requests

HEADERS = {"Content-Type": "application/json"}


def by_http_client(url, body, ca):
    parts = urlsplit(url)
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca)
        connection = http.client.HTTPSConnection(parts.netloc, context=context, timeout=60)
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("POST", parts.path, body, HEADERS)
    response = connection.getresponse()
    answer = response.status, response.read().decode()
    connection.close()
    return answer


def by_requests(url, body, ca):
    response = requests.post(url, body, headers=HEADERS, verify=ca, timeout=60)
    return response.status_code, response.text


if __name__ == "__main__":
    tries, size, expected, word, url, *ca = sys.argv[1:]
    body = b"7" * int(size)
    for way in (by_http_client, by_requests):
        for _ in range(int(tries)):
            status, text = way(url, body, ca[0] if ca else None)
            assert (status, word in text) == (int(expected), True), (status, text)
    print("ok")
