"""Verifies an audit log with nothing but its files and the node's public keys (profile section 13).

usage: audit_verify.py FOLDER KID=KEY...    KEY is the raw Ed25519 key in base64url
       audit_verify.py                      answers {"folder", "keys"} on standard input, a line each

It names the first thing that is wrong, by file and line. It shares nothing with the Rust code.
"""

import base64, hashlib, json, pathlib, re, sys

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LINK = ("body_hash", "event_type", "log_id", "prev_hash", "seq", "timestamp")
BESIDE = ("hash", "purged_at", "body_salt", "remote_ip", "remote_ip_salt")
FORMS = {"event_type": "[a-z_]{1,64}", "log_id": "[A-Za-z0-9_-]{1,64}", "remote_ip": "[0-9a-f:.]{0,45}",
         "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z"}

digest = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
unb64 = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
when = lambda text: text if "." in text else text[:-1] + ".000Z"
ordinal = lambda log: int((re.match(r"log-(\d+)", log) or [0, 0])[1])


def parse(text):
    def strict(pairs):
        assert len(dict(pairs)) == len(pairs), "a name stands twice"
        return dict(pairs)
    return json.loads(text, object_pairs_hook=strict)


def read(text):
    """A record and its body, if its own hashes are right and it has its one spelling."""
    record = parse(text)
    link = {name: record[name] for name in LINK}
    body = {name: value for name, value in record.items() if name not in LINK + BESIDE}
    parts = [link, *({name: record[name]} for name in BESIDE if name in record), body]
    assert b"{" + b",".join(rfc8785.dumps(part)[1:-1] for part in parts if part) + b"}" == text, "spelling"
    assert all(re.fullmatch(form, record[name]) for name, form in FORMS.items() if name in record), "form"
    assert digest(rfc8785.dumps(link)) == record["hash"] and 0 < record["seq"] < 2**53
    if "purged_at" in record:
        assert not body and "body_salt" not in record and "remote_ip" not in record
        return record, None
    assert digest(unb64(record["body_salt"]) + rfc8785.dumps(body)) == record["body_hash"]
    if "remote_ip" in record or "remote_ip_salt" in record:
        assert digest(unb64(record["remote_ip_salt"]) + record["remote_ip"].encode()) == body["remote_ip_hash"]
    return record, body


def signed(jws, log, keys):
    """The hash in a checkpoint and its record's number; whether its key is known."""
    head, payload, signature = jws.decode().split(".")
    assert all(base64.urlsafe_b64encode(unb64(part)).rstrip(b"=").decode() == part for part in (head, payload, signature))
    header, said = parse(unb64(head)), parse(unb64(payload))
    assert header == {"alg": "EdDSA", "kid": header["kid"], "typ": "a2a-audit+jws"} and said["log_id"] == log
    if header["kid"] in keys:
        key = Ed25519PublicKey.from_public_bytes(unb64(keys[header["kid"]]))
        key.verify(unb64(signature), f"{head}.{payload}".encode())
    return said["seq"], said["head_hash"], header["kid"] in keys


class Verifier:
    def __init__(self, folder, keys):
        self.folder, self.keys, self.place = pathlib.Path(folder), keys, ("", 0)
        self.log, self.seen, self.need, self.erased, self.records, self.unfinished = None, [], None, {}, 0, []

    def lines(self, name):
        *whole, rest = (self.folder / name).read_bytes().split(b"\n") if (self.folder / name).exists() else [b""]
        self.unfinished += [name] if rest else []
        for number, line in enumerate(whole, 1):
            self.place = (name, number)
            yield line
        self.place = (name, len(whole) + 1)

    def begin(self, record, body):
        self.close()
        first, gap, place = not self.seen, (body or {}) if record["event_type"] == "audit_gap" else None, self.place
        previous = (gap or {}).get("previous_log_id")
        if record["seq"] == 1:
            assert record["prev_hash"] == "sha256:" + "0" * 64 and record["log_id"] not in self.seen
            assert first or gap is not None and previous in (None, self.seen[-1]), "no gap is on record"
            if previous and not first:
                assert (gap["previous_seq"], gap["previous_hash"]) == (self.log["seq"], self.log["hash"]), "another end"
            self.need = (previous, gap["previous_seq"], place) if first and previous else self.need
        else:
            assert first, "its beginning is missing"
            self.need = (record["log_id"], record["seq"] - 1, place)
        points, last = {}, 0
        for jws in self.lines(f"checkpoints/{record['log_id']}.jsonl"):
            seq, head, known = signed(jws, record["log_id"], self.keys)
            assert seq > last, "not in order"
            points[seq], last = (head, digest(jws), known, self.place), seq
        self.seen, self.place = self.seen + [record["log_id"]], place
        self.log = dict(id=record["log_id"], seq=record["seq"] - 1, hash=record["prev_hash"], points=points, first=place,
                        content=False, signed=0, unknown=None, name=None, purges=[])
        if record["seq"] > 1: self.match()
        assert record["seq"] == 1 or self.log["name"], "no checkpoint stands for what is missing"

    def match(self):
        """Holds the head of the log against the checkpoint for it."""
        head, name, known, place = self.log["points"].get(self.log["seq"], (None, None, None, None))
        assert head in (None, self.log["hash"]), "another hash is signed"
        if head: self.log.update(name=(name, place), unknown=None if known else place)
        if known: self.log["signed"] = self.log["seq"]

    def close(self):
        for seq, (_, _, _, place) in sorted(self.log["points"].items() if self.log else ()):
            if seq > self.log["seq"]: self.fail(place, "the log ends before its checkpoint")
        if self.log and self.log["unknown"]: self.fail(self.log["unknown"], "unknown key")
        if self.log and self.log["content"] and not self.log["signed"]: self.fail(self.log["first"], "not signed")

    def fail(self, place, why):
        self.place = place
        raise AssertionError(why)

    def record(self, record, body):
        event, log = record["event_type"], self.log
        if not log or record["seq"] == 1 and record["log_id"] != log["id"]: self.begin(record, body)
        log, self.records = self.log, self.records + 1
        assert (record["log_id"], record["seq"], record["prev_hash"]) == (log["id"], log["seq"] + 1, log["hash"]), "link"
        assert body is not None or event not in ("start", "stop", "checkpoint", "purge", "audit_gap"), "erased"
        (name, where), named = log["name"] or (None, self.place), body["checkpoint_hash"] if event == "checkpoint" else None
        if name != named: self.fail(where if named else self.place, "another checkpoint is on record")
        log.update(seq=record["seq"], hash=record["hash"], name=None, content=log["content"] or event not in ("start", "audit_gap"))
        self.match()
        if body is None:
            new = dict(count=0, recorded=0, vague=False, first=self.place, beyond=[])
            blank = self.erased.setdefault(when(record["purged_at"]), new)
            blank["count"] += 1
            blank["beyond"].append(((len(self.seen), record["seq"]), when(record["timestamp"]), self.place))
        elif event == "purge":
            log["purges"].append((when(record["timestamp"]), body))
        if log["signed"] == log["seq"]: self.purges()

    def purges(self):
        """Holds the purges that are signed by now against what is missing: each counts for what it says and no more."""
        for time, body in self.log["purges"]:
            log_id, through = body.get("purged_log_id"), body.get("purged_through", 0)
            if body["kind"] == "body" and time in self.erased:
                blank, last = self.erased[time], ((self.seen + [log_id]).index(log_id) + 1, through)
                blank["recorded"] += body["count"]
                if "purged_before" not in body: blank["vague"] = True
                elif log_id in self.seen:
                    reached = lambda position, timestamp, _: position <= last and timestamp < when(body["purged_before"])
                    blank["beyond"] = [one for one in blank["beyond"] if not reached(*one)]
            elif body["kind"] == "prefix" and self.need:
                covers = through >= self.need[1] if log_id == self.need[0] else log_id in self.seen
                self.need = None if covers else self.need
        self.log["purges"] = []

    def run(self):
        try:
            for path in sorted(self.folder.glob("audit-????????.jsonl")):
                assert not self.unfinished or not self.unfinished[-1].startswith("audit-"), "cut off"
                for line in self.lines(path.name):
                    self.record(*read(line))
            self.close()
            for path in sorted((self.folder / "checkpoints").glob("*.jsonl")):
                if path.stem not in self.seen and ordinal(path.stem) >= ordinal((self.seen + [""])[0]):
                    self.fail((f"checkpoints/{path.name}", 1), "a log is missing")
            if self.need: self.fail(self.need[2], "no purge is on record")
            for blank in self.erased.values():
                if blank["count"] > blank["recorded"]: self.fail(blank["first"], "no purge is on record")
                if blank["beyond"] and not blank["vague"]: self.fail(blank["beyond"][-1][2], "no purge goes so far")
        except Exception as error:
            return {"intact": False, "file": self.place[0], "line": self.place[1], "error": repr(error)}
        unsigned = self.log["seq"] - self.log["signed"] if self.log else 0
        unproven = sum(blank["count"] for blank in self.erased.values() if blank["beyond"])
        return {"intact": True, "records": self.records, "unsigned": unsigned, "unproven": unproven, "unfinished": self.unfinished}


def main():
    if len(sys.argv) > 1:
        report = Verifier(sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])).run()
        print(json.dumps(report))
        sys.exit(not report["intact"])
    for line in sys.stdin:
        print(json.dumps(Verifier(**json.loads(line)).run()), flush=True)


main()
